# make demo, make test: each does all set-up on a fresh machine and is quick the second time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VIEWS := .venv-views
OLDEST := .venv-oldest
# PyTorch's threads spin while they wait: more of them than cores is slower than fewer
export OMP_NUM_THREADS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)

# two processes of tests, each with the files that it began: some keep an embedded scan for all of their tests
PARALLEL := -n 2 --dist loadfile
# these run in an environment of their own
NO_VIEWS := --ignore=Testing/views --ignore=Testing/viewer

.PHONY: demo view test test-long test-oldest test-slicer coverage system lint bench weights docs docs-pictures package sbom clean

demo: $(VENV)/run.stamp
	$(BIN)/anatemb demo -o demo-output

view: $(VIEWS)/stamp
	$(VIEWS)/bin/anatemb view --demo

# views and viewer are tested at the same time, as a browser's tests wait for most of theirs; what they print follows
test: system lint $(VIEWS)/stamp
	@mkdir -p build
	@OMP_NUM_THREADS=1 $(VIEWS)/bin/python -m pytest -q -p no:cacheprovider Testing/views Testing/viewer \
	  >build/test-views.log 2>&1 & views=$$!; trap 'kill $$views 2>/dev/null' INT TERM; \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PARALLEL) $(NO_VIEWS); rest=$$?; \
	wait $$views; status=$$?; cat build/test-views.log; exit $$((rest | status))

# what takes long and proves from end to end what shorter tests prove in parts
test-long: system lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m long $(PARALLEL) $(NO_VIEWS)

# the engine and the modules' logic with the oldest versions that pyproject.toml permits
test-oldest: $(OLDEST)/stamp
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python -m pytest -q $(PARALLEL) -p no:cacheprovider \
	  Testing/engine Testing/followup Testing/registration Testing/logic

# make test-slicer SLICER=path/to/Slicer: the scenarios of Testing/in_slicer, in that Slicer
ifneq ($(SLICER),)
test-slicer: package
	$(BIN)/python Testing/in_slicer/run.py "$(SLICER)" $(SCENARIOS) --package dist
else
test-slicer:
	@$(PYTHON) Testing/in_slicer/run.py
endif

# lines of the engine and of the modules that no test runs
coverage: system $(VENV)/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(PARALLEL) $(NO_VIEWS) \
	  --cov=AnatomicalEmbedding --cov=SlicerModules --cov-report=term-missing:skip-covered

# libraries and programs that the tests need: installed as root, named otherwise
system:
	@$(PYTHON) tools/system_packages.py

# an installable extension, without a build of Slicer
package: $(VENV)/dev.stamp
	$(BIN)/python tools/make_zip.py -o dist

# make bench DATA=folder-of-labelled-scans also measures accuracy beside the peers, and confidence: an hour on two cores
bench: $(VENV)/bench.stamp $(VENV)/dev.stamp
	$(BIN)/python Testing/benchmarks/speed.py
	QT_QPA_PLATFORM=offscreen $(BIN)/python Testing/benchmarks/slicer_modules.py
ifdef DATA
	$(BIN)/python Testing/benchmarks/compare.py landmarks $(DATA) --each-effort
	$(BIN)/anatemb evaluate confidence $(DATA)
	$(BIN)/python Testing/benchmarks/compare.py boxes $(DATA)
endif

# make weights DATA=folder-with-index.csv [TERMS=open|all] [HOURS=1] [OUT=folder]: weights and all files that belong to them
TERMS ?= open
HOURS ?= 1
OUT ?= build/weights-$(TERMS)
weights: $(VENV)/dev.stamp
	$(BIN)/anatemb weights "$(DATA)" -o "$(OUT)" --terms $(TERMS) --hours $(HOURS)

# the pages of docs/ as a folder that opens in a browser: build/docs/index.html
docs: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

# all plots and pictures of docs/ anew; with SLICER=path/to/Slicer, those of the modules too
docs-pictures: system $(VENV)/docs.stamp $(VIEWS)/stamp
	$(BIN)/python tools/draw_benchmarks.py docs/pictures
	$(BIN)/python tools/draw_concepts.py docs/pictures
	$(VIEWS)/bin/python tools/take_pictures.py $(if $(SLICER),--slicer "$(SLICER)")

# software bill of materials (CycloneDX) of what `make` has installed: build/sbom.json
sbom: $(VENV)/dev.stamp
	mkdir -p build
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(BIN)/python

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) $(VIEWS) $(OLDEST) demo-output build dist

$(VENV)/pip.stamp:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed; run make PYTHON=/path/to/python3.11"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@touch $@

$(VENV)/run.stamp: pyproject.toml constraints.txt $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cohort]'
	@touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cohort,train,dev]'
	@touch $@ $(VENV)/run.stamp

$(VENV)/docs.stamp: pyproject.toml constraints.txt $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/bench.stamp: pyproject.toml constraints.txt $(VENV)/pip.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

# slice views need another slicer-core than the logic's tests
$(VIEWS)/stamp: pyproject.toml constraints-views.txt
	$(PYTHON) -m venv $(VIEWS)
	$(VIEWS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-views.txt \
	  'trame-slicer[standalone]' torch safetensors SimpleITK pillow jinja2 pydicom pytest pytest-xdist hypothesis playwright
	$(VIEWS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

$(OLDEST)/stamp: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
	  -e '.[cohort,dicom,followup,train]' pytest pytest-xdist hypothesis scikit-image slicer-core
	@touch $@
