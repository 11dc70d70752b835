# Every target sets up what it needs, from nothing but Python (and Java with Maven for Apache Kafka), into .venv and .cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA := .cache/kafka
JARS := $(KAFKA)/libs
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip -q --disable-pip-version-check

.PHONY: demo test check bench packages setup jars clean

demo: setup jars
	$(BIN)/wattledger demo --out out/demo

test: setup jars
	$(BIN)/pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/architecture

bench: setup
	$(BIN)/python benchmarks/core.py

# The agent as .deb and .rpm, in out/packages.
packages: setup
	PYTHON=$(PYTHON) infra/packages/build

setup: $(INSTALLED)

# The stamp is written last, so an installation that was cut off is made again.
$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "WattLedger needs Python 3.11 or later; '$(PYTHON)' is not: make $(or $(MAKECMDGOALS),demo) PYTHON=python3.11" >&2; \
		exit 1; }
	@echo "installing into $(VENV): about 1.2 GB, a minute or two"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

# Fetched beside and moved at the end: the folder is there only when it is whole.
jars:
	@if test -d $(JARS) && ! test infra/kafka/pom.xml -nt $(JARS); then :; \
	elif ! command -v java >/dev/null || ! command -v mvn >/dev/null; then \
		echo "no Apache Kafka: Java or Maven is missing. In its place: Docker where an engine answers, else Tansu"; \
	else \
		echo "fetching Apache Kafka's jars into $(JARS): 44 MB"; rm -rf $(KAFKA)/part; \
		if mvn -q -B -Dstyle.color=never -f infra/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(KAFKA)/part"; \
		then rm -rf $(JARS) && mv $(KAFKA)/part $(JARS) && touch $(JARS); \
		else echo "no Apache Kafka: Maven could not fetch its jars (above). In its place: Docker's, else Tansu"; fi; \
	fi

clean:
	rm -rf $(VENV) .cache out
