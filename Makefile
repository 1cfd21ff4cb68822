# make demo: a virtual environment, muser in it, and four stories side by side.
# make test: the same with the test tools, and every test: Python, and C++ where doctest is installed.

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build/tests
ARGS ?=

SOURCES := pyproject.toml CMakeLists.txt $(shell find csrc src -type f \
	\( -name '*.cpp' -o -name '*.h' -o -name '*.py' -o -name '*.gguf' \))
BIN := $(VENV)/bin
# The compiler cache, if there is one: it makes the second build of a file free.
CACHE := $(if $(shell command -v ccache),CMAKE_CXX_COMPILER_LAUNCHER=ccache)

.PHONY: demo test test-python test-cpp types clean

demo: $(VENV)/muser
	$(BIN)/python examples/quickstart.py $(ARGS)

test: types test-python test-cpp

test-python: $(VENV)/muser-test
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest $(ARGS)

types: $(VENV)/muser-test
	$(BIN)/python -m mypy

test-cpp: $(VENV)/muser-test
	@if ! echo '#include <doctest/doctest.h>' | c++ -x c++ -E - >/dev/null 2>&1; then \
		echo "C++ tests skipped: doctest is not installed (Debian: apt-get install doctest-dev)"; \
		test "$$CI" != true; \
	else \
		PATH="$(abspath $(BIN)):$$PATH" $(CACHE) cmake -S . -B $(BUILD) -G Ninja -DMUSER_TESTS=ON -DMUSER_EXTENSION=OFF && \
		$(BIN)/cmake --build $(BUILD) && \
		$(BIN)/ctest --test-dir $(BUILD) --output-on-failure; \
	fi

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
