# Every target sets itself up in .venv: a fresh machine needs only Python (3.11 or newer) and make. The demo needs the
# core and the page alone; the others need everything, and where there is no Java for Spark, one is installed with it.
PYTHON ?= python3
comma  := ,
VENV   := .venv
PY     := $(VENV)/bin/python
DEMO   := $(VENV)/.demo
STAMP  := $(VENV)/.ready
EXTRAS := dev$(if $(or $(JAVA_HOME),$(shell command -v java 2>/dev/null)),,$(comma)java)

# The tests of the core, which need neither Spark nor a broker, a database, a browser. Runs of whole engines, and the
# tests of what judges it, are left to `make test`.
CORE   := $(addprefix tests/,kernels rows impute repository engine) $(wildcard tests/test_*.py)
CORE   := $(filter-out $(addprefix tests/,test_doctests.py test_public.py test_security.py test_oracle.py test_run.py test_keep.py),$(CORE))

.DEFAULT_GOAL := help
.PHONY: help setup demo docs quick net test test-integration test-versions test-packaging components explore check audit fuzz bench bench-impute bench-fit bench-spark bench-kafka bench-forks crash chaos lab lab-quick clean

help:
	@echo "make demo    a simulated coal mine with broken sensors, live in the terminal and as a page in a browser"
	@echo "make quick   the core's tests on a tenth of their examples: a minute; EXAMPLES=0.5 draws half of them, TESTS=\"-k sums\" narrows it"
	@echo "make test    every test, on a quarter of its examples, the same ones every time; EXAMPLES=1 for all of them"
	@echo "make net     does the code answer what it answered: 600 streams on every engine; FAST=1 a sample, SPARK=1 with Spark, NET=\"--tolerance 1e-10\""
	@echo "make test-versions  the tests on Spark with each version of PySpark that Fogline works with, those of kernels with each Numba"
	@echo "make test-packaging a wheel with compiled kernels for, and in empty environments of, Python 3.11, 3.12 and 3.13; PYTHONS=\"a b\" names others"
	@echo "make test-integration   with a real broker, database, cluster; SHORT=1 in a minute or two"
	@echo "make components         fetch the jars that these need, with Maven; FOGLINE_JARS names another folder"
	@echo "make explore        random streams against the reference, and property tests on new examples, for EXPLORE=10 minutes; SEED=n repeats a find"
	@echo "make check   format, lint, types, import rules, words, licences, the docs as a site"
	@echo "make fuzz    the readers of queries, rules and addresses under a fuzzer that follows branches, for SECONDS=600"
	@echo "make audit   licences, and whether weaknesses are known of what is installed; needs a network"
	@echo "make docs    the docs as a site, on http://127.0.0.1:8000; make check builds it into build/site"
	@echo "make bench   Fogline beside recomputing the skyline at every tick: windows, and the newest row per id"
	@echo "make bench-impute   the same with a repository; DATA=folder adds the Intel readings"
	@echo "make bench-fit      time and memory of fogline fit; ROWS=10000000 ATTRIBUTES=4 MEMORY=8g for more"
	@echo "make bench-spark    the pipeline beside an identity mapInArrow and a trivial stateful operator"
	@echo "make bench-kafka    the pipeline over a topic beside an identity mapInArrow over the same topic"
	@echo "make bench-forks    10,000 Python workers, none used twice: does each of them start?"
	@echo "make crash          kill -9 in the middle, again and again: is every change reported exactly once?"
	@echo "make chaos          try to break it, by seed: kills, full disks, damage, races, I/O errors, fuzz; resumes; PARTS=\"kills io\" SEEDS=0:10 MINUTES=30"
	@echo "make lab            the paper's experiments and a report; resumes; DATA=folder adds the real sets"
	@echo "make lab-quick      the same in minutes: small, to see that it works"
	@echo "make clean   remove what the other targets made"

setup: $(STAMP)

# Into the environment with what these extras name; it is made if need be.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fogline needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(1)]'
endef

$(DEMO): pyproject.toml constraints.txt
	$(call install,page)
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(call install,$(EXTRAS))
	@touch $(DEMO) $@

demo: $(DEMO)
	@$(VENV)/bin/fogline demo --page

quick: $(STAMP)
	FOGLINE_EXAMPLES=$(or $(EXAMPLES),0.1) $(PY) -m pytest -n 2 --dist loadscope -m "not slow" $(CORE) $(TESTS)

test: $(STAMP)
	FOGLINE_EXAMPLES=$(or $(EXAMPLES),0.25) $(PY) -m pytest -n 2 --dist loadscope

net: $(STAMP)
	$(PY) -m tests.net $(if $(FAST),--fast) $(if $(SPARK),--spark) $(NET)

test-versions: $(STAMP)
	$(PY) tools/versions.py $(if $(PYSPARK),--pyspark $(PYSPARK)) $(if $(NUMBA),--numba $(NUMBA)) $(if $(TESTS),-- $(TESTS))

test-packaging: $(STAMP)
	$(PY) tools/packaging.py $(addprefix --python ,$(PYTHONS))

test-integration: $(STAMP)
	$(PY) -m pytest -rs -o addopts="-q --strict-markers" tests/integration $(if $(SHORT),-m "not whole") $(if $(TESTS),-k "$(TESTS)")

components: $(STAMP)
	$(PY) tools/components.py

explore: $(STAMP)
	$(PY) tools/explore.py --minutes $(or $(EXPLORE),10) $(if $(SEED),--seed $(SEED)) $(if $(TESTS),-- $(TESTS))

check: $(STAMP)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/words.py
	$(PY) -m tools.audit
	$(PY) tools/site.py

fuzz: $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt atheris
	$(PY) -m tests.chaos.coverage_guided -max_total_time=$(or $(SECONDS),600)

audit: $(STAMP)
	$(PY) -m tools.audit --online

docs: $(STAMP)
	$(PY) tools/site.py --serve

bench: $(STAMP)
	$(PY) -m benchmarks.ticks $(BENCH)
	$(PY) -m benchmarks.latest $(BENCH)

bench-impute: $(STAMP)
	$(PY) -m benchmarks.access $(if $(DATA),--data $(DATA))
	$(PY) -m benchmarks.impute $(if $(DATA),--data $(DATA)) $(BENCH)

bench-fit: $(STAMP)
	$(PY) -m benchmarks.fit --rows $(or $(ROWS),1000000) --attributes $(or $(ATTRIBUTES),6) $(if $(MEMORY),--memory $(MEMORY))

bench-spark: $(STAMP)
	$(PY) -m benchmarks.spark

bench-kafka: $(STAMP)
	$(PY) -m benchmarks.kafka

bench-forks: $(STAMP)
	$(PY) -m benchmarks.forks --starts $(or $(STARTS),10000)

crash: $(STAMP)
	$(PY) -m benchmarks.crash
	$(PY) -m benchmarks.crash --living --worker-kills 40
	$(PY) -m benchmarks.crash --latest --worker-kills 40
	$(PY) -m benchmarks.crash --embedded
	$(PY) -m benchmarks.crash --embedded --living
	$(PY) -m benchmarks.crash --embedded --latest

chaos: $(STAMP)
	$(PY) -m tests.chaos $(addprefix --part ,$(PARTS)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(MINUTES),--minutes $(MINUTES)) --report docs/results/chaos.md

lab: $(STAMP)
	$(PY) -m lab run $(if $(DATA),--data $(DATA)) $(LAB)
	$(PY) -m lab report

lab-quick: $(STAMP)
	$(PY) -m lab run --quick $(if $(DATA),--data $(DATA)) $(LAB)
	$(PY) -m lab report --quick

clean:
	rm -rf $(VENV) .venv-pyspark-* .venv-numba-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
