# Every target makes its own environment first; nothing else needs to be installed or run before it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
NATIVE := $(wildcard hlo2tx8/device/native/*.c hlo2tx8/device/native/*.h hlo2tx8/device/native/*.py hlo2tx8/device/isa/*.py hlo2tx8/device/approx/*.py) \
  $(wildcard hlo2tx8/vendor/native/*.c hlo2tx8/vendor/native/*.h hlo2tx8/vendor/native/*.py) $(wildcard hlo2tx8/pjrt/native/*.c hlo2tx8/pjrt/native/*.h hlo2tx8/pjrt/abi.py hlo2tx8/pjrt/header.py hlo2tx8/runtime/native/*.c hlo2tx8/runtime/native/*.h)
# Not ordered by the number of their tests: long files of few tests would come last.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder
FRONT_DOOR := tests/unit/frontend tests/unit/spmd tests/pjrt tests/cli tests/unit/test_stages.py
GELU := hlo_samples/elementwise/gelu_bf16.hlo
BASE ?= HEAD
SEED ?= $(shell date +%s)
N ?= 50
JOBS ?= 0
# Hundreds of processes import the package: modules are compiled once.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup native demo test test-fast test-onnx test-torch test-tensorflow test-sweep test-explorer lint types lit golden docs api-docs wheels container size lock test-versions bench fuzz fuzz-files flag-pairs mutate sanitize replay explain clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml requirements-dev.lock $(wildcard setup.py) $(NATIVE)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing hlo2tx8 and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c requirements-dev.lock
	@touch $@

setup: $(STAMP)  ## make the environment and build the native core

native: $(STAMP)  ## build the native core again
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --force-reinstall --no-deps -e .

demo: $(STAMP)  ## run gelu bf16[6,512,4096] on the emulator: comparison, listing, cycles, dumps
	@$(BIN)/hlo2tx8 run --print_program --report --xla_dump_to=build/demo \
	  --xla_dump_hlo_pass_re=fusion-emitter $(GELU)

test: lint types api-docs  ## everything CI checks: lint, types, the API reference, pytest, lit, sizes
	@$(PYTEST)
	@$(MAKE) --no-print-directory lit size

test-fast: $(STAMP)  ## the quick tests only: under three minutes on two cores
	@$(PYTEST) -m "not slow and not long"

test-onnx:  ## the ONNX door in an environment with the extra: its tests, and each 12th of ONNX's own node cases
	@test -x build/onnx/bin/python || $(PYTHON) -m venv build/onnx
	@build/onnx/bin/python -m pip install --quiet --disable-pip-version-check -e '.[onnx,test]' -c requirements-dev.lock
	@build/onnx/bin/python -m pytest -n 2 tests/onnx_models
	@build/onnx/bin/hlo2tx8 test-ops --suite=onnx --every=12 --known='nonmaxsuppression|unique|nonzero|image_decoder|attention_.*causal.*bf16|attention_.*padded_kv_bf16|dft_inverse'

test-torch:  ## the PyTorch door in an environment with the extra: its tests, and each 20th of torch's own ops and modules
	@test -x build/torch/bin/python || $(PYTHON) -m venv build/torch
	@sed /^mpmath/d requirements-dev.lock >build/torch/constraints.txt  # torch's sympy wants an older one
	@build/torch/bin/python -m pip install --quiet --disable-pip-version-check -e '.[torch,test]' expecttest -c build/torch/constraints.txt
	@build/torch/bin/python -m pytest -n 2 tests/torch_models
	@build/torch/bin/hlo2tx8 test-ops --suite=torch --every=20 --samples=2 \
	  --known='bessel|airy|chalf|hash_tensor|histogramdd|matrix_sqrth|linalg\.(eig|eigvals|ldl.*|polar)/|linear_cross_entropy|LinearCrossEntropy'

test-tensorflow:  ## the TensorFlow door in an environment with the extra: its tests, and three of Keras's networks
	@test -x build/tensorflow/bin/python || $(PYTHON) -m venv build/tensorflow
	@build/tensorflow/bin/python -m pip install --quiet --disable-pip-version-check -e '.[tensorflow,test]' -c requirements-dev.lock
	@build/tensorflow/bin/python -m pytest -n 2 tests/tensorflow_models
	@build/tensorflow/bin/python tests/corpora/keras_applications.py --only='saved/(MobileNet|ResNet50|DenseNet121)$$'

test-sweep:  ## sweeps in an environment with the extra: their tests, and sweeps that are killed
	@test -x build/sweep/bin/python || $(PYTHON) -m venv build/sweep
	@build/sweep/bin/python -m pip install --quiet --disable-pip-version-check -e '.[search,test]' -c requirements-dev.lock
	@build/sweep/bin/python -m pytest -n 2 tests/sweep
	@build/sweep/bin/python -m benchmarks.sweep_ends --points=80 --pairs=0

test-explorer:  ## the extension of Model Explorer in an environment with the extra
	@test -x build/explorer/bin/python || $(PYTHON) -m venv build/explorer
	@build/explorer/bin/python -m pip install --quiet --disable-pip-version-check -e '.[explorer,test]' -c requirements-dev.lock
	@build/explorer/bin/python -m pytest tests/reports/test_model_explorer.py

lint: $(STAMP)  ## ruff
	@$(BIN)/ruff check .

types: $(STAMP)  ## pyright, strict
	@$(BIN)/pyright --pythonpath $(BIN)/python

lit: $(STAMP)  ## FileCheck tests
	@$(BIN)/lit -s tests

golden: $(STAMP)  ## rewrite stored listings and numbers
	@$(BIN)/python -m pytest --update-golden tests/golden

docs: $(STAMP)  ## rewrite the generated pages of docs/
	@$(BIN)/python -m hlo2tx8.dev.op_engines
	@$(BIN)/python -m hlo2tx8.dev.isa_uses
	@$(BIN)/python -m hlo2tx8.dev.oplib_page
	@$(BIN)/python -m hlo2tx8.dev.docs

api-docs: $(STAMP)  ## the API reference from docstrings, in build/api/site; a warning is an error
	@$(BIN)/python -m hlo2tx8.dev.api_pages build/api/pages
	@$(BIN)/mkdocs build --quiet --strict

wheels:  ## wheels for Linux on x86-64 and aarch64 and the source distribution, in dist/
	@PYTHON=$(PYTHON) .ci/wheels

container:  ## this machine's wheel in a fresh Debian without a compiler: installed, used, uninstalled
	@PYTHON=$(PYTHON) .ci/wheels $$(uname -m)
	@.ci/container

size: $(STAMP)  ## hand-written lines by package against size.toml
	@$(BIN)/python -m hlo2tx8.dev.size

lock: $(STAMP)  ## write today's versions of everything that `make setup` installs to requirements-dev.lock
	@head -n 1 requirements-dev.lock >build/lock
	@$(BIN)/pip-compile --quiet --upgrade --extra dev --extra examples --strip-extras --allow-unsafe --no-header --no-annotate \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options --output-file=- pyproject.toml \
	  | grep -vE '^#|^$$|@' >>build/lock
	@mv build/lock requirements-dev.lock

test-versions:  ## the front door's tests with the oldest and the newest jax and xDSL that pyproject.toml allows
	@for end in lowest newest; do \
	  env=build/versions/$$end; \
	  test -x $$env/bin/python || $(PYTHON) -m venv $$env; \
	  $$env/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' -c tests/versions/$$end.txt || exit 1; \
	  echo "$$end: $$($$env/bin/python -m pip list 2>/dev/null | awk '/^(jax|jaxlib|xdsl|numpy) / {printf "%s %s  ", $$1, $$2}')"; \
	  $$env/bin/python -m pytest -n 2 -m "not slow" $(FRONT_DOOR) || exit 1; \
	done

bench: $(STAMP)  ## gelu, kernels written by hand, dispatch and models against XLA:CPU, side by side; cycles over lower bounds
	@$(BIN)/python -m benchmarks.gelu
	@$(BIN)/python -m benchmarks.kernels
	@$(BIN)/python -m benchmarks.dispatch
	@$(BIN)/python -m benchmarks.models
	@$(BIN)/python -m benchmarks.roofline

fuzz: $(STAMP)  ## N random graphs from SEED on, JOBS at once, at every level against the reference and XLA:CPU; noted in docs/
	@$(BIN)/python -m hlo2tx8.dev.fuzz --seed=$(SEED) --count=$(N) --jobs=$(JOBS) --record=docs/fuzzed.json

fuzz-files: $(STAMP)  ## N damaged files of each kind from SEED on: errors of ours and nothing else; noted in docs/
	@for kind in hlo mlir mlirbc tx8x chip literals; do \
	  $(BIN)/python -m hlo2tx8.dev.fuzz_files --kind=$$kind --seed=$(SEED) --count=$(N) --record=docs/fuzzed_files.json || exit 1; \
	done

flag-pairs: $(STAMP)  ## all pairs of flags of all commands: each acts, or says why it cannot
	@$(BIN)/python -m tests.cli.flag_pairs

mutate: $(STAMP)  ## break N programs in every way: strict mode must find what changes a result
	@$(BIN)/python -m hlo2tx8.dev.mutate --count=$(N)

sanitize: $(STAMP)  ## the native core with sanitizers on a million random and damaged programs, the jax plugin on its checks, and libtx8runtime
	@$(BIN)/python tests/emulator/sanitize.py
	@$(BIN)/python -m tests.pjrt.sanitize
	@$(BIN)/python -m tests.unit.runtime.sanitize

replay: $(STAMP)  ## compile all samples at BASE and here; an empty diff means no program changed
	@$(BIN)/python -m hlo2tx8.dev.replay --base $(BASE)

explain: $(STAMP)  ## why the demo was fused and lowered as it was
	@$(BIN)/hlo2tx8 compile --explain $(GELU)

clean:  ## remove everything that was built
	@rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis hlo2tx8/device/native/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
