# make demo: a virtual environment, muser in it, and four stories side by side.
# make test: the same with the test tools, and every test. pytest also builds and runs the C++ tests
# (tests/test_cpp.py) where doctest is installed.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

SOURCES := pyproject.toml CMakeLists.txt $(shell find csrc src -type f \
	\( -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.gguf' \))
BIN := $(VENV)/bin
# The compiler cache, if there is one: it makes the second build of a file free.
CACHE := $(if $(shell command -v ccache),CMAKE_CXX_COMPILER_LAUNCHER=ccache)

.PHONY: demo test test-python types clean

demo: $(VENV)/muser
	$(BIN)/python examples/quickstart.py $(ARGS)

test: types test-python

test-python: $(VENV)/muser-test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest $(ARGS)

# Types and style.
types: $(VENV)/muser-test
	$(BIN)/python -m mypy
	$(BIN)/ruff check --quiet .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/muser: $(VENV)/bin/python $(SOURCES)
	$(CACHE) $(BIN)/python -m pip install --quiet --disable-pip-version-check .
	@touch $@

$(VENV)/muser-test: $(VENV)/bin/python $(SOURCES)
	$(CACHE) $(BIN)/python -m pip install --quiet --disable-pip-version-check ".[test]"
	@touch $@ $(VENV)/muser

clean:
	rm -rf $(VENV) build
