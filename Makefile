# Every target sets up what it needs, from nothing but Python (and Java with Maven for Apache Kafka), into .venv and .cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JARS := .cache/kafka/libs
SETUP := $(VENV)/.installed

.PHONY: demo test check bench setup jars clean

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

setup: $(SETUP)

$(SETUP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "WattLedger needs Python 3.11 or newer; make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing into $(VENV) (about 1 GB, a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

jars:
	@if test -e $(JARS)/.complete; then :; \
	elif command -v java >/dev/null && command -v mvn >/dev/null; then \
		echo "fetching Apache Kafka's jars into $(JARS)"; \
		mvn -q -B -f infra/kafka/pom.xml dependency:copy-dependencies -DoutputDirectory="$(CURDIR)/$(JARS)" \
			&& touch $(JARS)/.complete; \
	else \
		echo "Java or Maven is missing: no Apache Kafka from its jars; Docker's is used where an engine answers, else Tansu"; \
	fi

clean:
	rm -rf $(VENV) .cache out
