# Every target sets up what it needs, from nothing but Python (and Java with Maven for Apache Kafka), into .venv and .cache.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA := .cache/kafka
JARS := $(KAFKA)/libs
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip -q --disable-pip-version-check

RIVALS := .cache/bench-venv
MINUTES ?= 30
SEED ?=

.PHONY: demo test check faults soak bench bench-rivals packages setup jars clean

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

# Every fault of the list on Apache Kafka; the table goes to out/faults.md. `make test` runs the quick ones of them.
faults: setup jars
	$(BIN)/pytest tests/fault tests/integration/test_fault_cluster.py -m fault --faults

# Faults at random: make soak MINUTES=30 [SEED=n]. The page goes to out/soak/soak.md.
soak: setup jars
	$(BIN)/python -m tests.fault_harness.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

# All of it, one after the other, about 27 minutes; tables in out/bench/, targets last. Prometheus takes part where it
# is installed (Debian: apt-get install prometheus).
bench: setup jars bench-rivals
	@mkdir -p out/bench
	$(BIN)/python benchmarks/core.py --json > out/bench/core.json
	$(BIN)/python benchmarks/ingest.py --json out/bench/ingest.json --markdown out/bench/ingest.md
	$(BIN)/python benchmarks/growth.py --json out/bench/growth.json --markdown out/bench/growth.md
	$(BIN)/python benchmarks/month.py --growth 300 --growth-days 3,10 --json out/bench/month.json --markdown out/bench/month.md
	$(BIN)/python benchmarks/restart.py --json out/bench/restart.json --markdown out/bench/restart.md
	$(BIN)/python benchmarks/agent.py --json > out/bench/agent.json
	$(BIN)/python benchmarks/audit.py --json > out/bench/audit.json
	$(BIN)/python benchmarks/targets.py out/bench --markdown out/bench/targets.md

# What the benchmark compares with has an environment of its own: its pins clash with ours.
bench-rivals: $(RIVALS)/.installed

$(RIVALS)/.installed: benchmarks/requirements-rivals.lock
	@test -x $(RIVALS)/bin/python || $(PYTHON) -m venv $(RIVALS)
	@$(RIVALS)/bin/python -m pip -q --disable-pip-version-check install --require-hashes -r benchmarks/requirements-rivals.lock
	@touch $@

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
