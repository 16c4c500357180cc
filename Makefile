# `make demo`: install and run the main job. `make test`: install and run the tests. Nothing else is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := http,train,gguf,plot,env,postgres,gui,claw,claw-eval,dev
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test test-all check bench docs venv system system-tests clean

demo: venv
	$(BIN)/orchard swe run
	@echo "→ every file of this run lies in runs/swe/demo; $(BIN)/orchard runs show demo prints the tables again"

test: venv system-tests
	$(PYTEST) -m "not slow and not gpu and not network" -n 2 --dist loadfile

test-all: venv system-tests
	$(PYTEST) -m "not gpu" -n 2 --dist loadfile

check: venv
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(PYTEST) -q tests/test_layers.py

bench: venv
	for script in bench/*.py; do $(BIN)/python $$script || exit 1; done

docs: venv
	$(BIN)/python docs/generate.py

venv: $(VENV)/installed

# torch first and by itself: with the constraint, nothing after it asks for another build
$(VENV)/installed: pyproject.toml constraints.txt | system
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

system:
	@PYTHON=$(PYTHON) sh .ci/system.sh

system-tests:
	@PYTHON=$(PYTHON) sh .ci/system.sh tests

clean:
	rm -rf $(VENV) build dist
