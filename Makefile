# Everything sets itself up: a virtual environment in .venv with the exact versions of requirements/lock.txt.
PYTHON ?= python3
RUN = .venv/bin/python
# So many tests run at a time, each in one thread: two processes of one thread do more than one process of two.
WORKERS ?= 2
PYTEST = OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n $(WORKERS) --dist loadfile --max-worker-restart=0 --durations=0 --durations-min=10
# PyTorch finds the pretend accelerator by the folder; a real one must be the only one.
DEVICE ?= pretend
ON_DEVICE = PYTHONPATH=$(CURDIR)/tests/pretend OMP_NUM_THREADS=1 D2LBERT_ACCELERATOR=$(DEVICE) TORCH_DEVICE_BACKEND_AUTOLOAD=$(if $(filter pretend,$(DEVICE)),1,0) $(RUN)

.PHONY: book colab slides notebooks-branch pdf epub test quick check lowest newest mxnet dist test-device gpu notebooks bench glue soak mutants clean

book: .venv/ready  ## run every chapter and build the site in _build/html; longer runs with PROFILE=cpu or PROFILE=full
	$(RUN) tools/build_book.py $(if $(PROFILE),--profile $(PROFILE))

colab: .venv/ready  ## from what make book ran: notebooks for any viewer, copies for students, zips, in _build/notebooks
	$(RUN) tools/publish_notebooks.py

slides: .venv/ready  ## from what make book ran: a deck of slides for each chapter, with all that it needs, in _build/slides
	$(RUN) tools/slide_decks.py

notebooks-branch: colab  ## commit them to the branch that the buttons of the site open; pushes nothing
	$(RUN) tools/publish_branch.py

pdf: .venv/ready  ## from what make book ran: the whole book to print, in _build/files; PAPER=letter; needs Chromium and ChromeDriver
	$(RUN) tools/bind_book.py pdf $(if $(PAPER),--paper $(PAPER))

epub: .venv/ready  ## the same for e-readers
	$(RUN) tools/bind_book.py epub

test: check  ## prove everything; the tests of structure have run in check
	$(PYTEST) --hypothesis-profile=full --ignore=tests/structure tests

quick: .venv/ready  ## all but the slow tests, the notebooks and the site: less than ten minutes
	$(PYTEST) -m "not slow" --ignore=tests/system/notebooks --ignore=tests/system/site tests

check: .venv/ready  ## style, types, structure: a minute
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	OMP_NUM_THREADS=1 $(RUN) -m pytest -q -n $(WORKERS) tests/structure

lowest:  ## the quick tests with the lowest versions that pyproject.toml allows, PyTorch as locked, in an environment of their own
	PYTHON="$(PYTHON)" bash tools/versions.sh lowest

newest:  ## the same with the newest versions there are, PyTorch as locked
	PYTHON="$(PYTHON)" bash tools/versions.sh newest

mxnet:  ## the MXNet edition on Python 3.11, 3.12 and 3.13, each in a clean environment of its own; PYTHONS="3.11" for one
	bash tools/mxnet.sh

dist: .venv/ready  ## the archives of a release, in dist/
	rm -rf dist
	$(RUN) -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(RUN) -c "from setuptools import build_meta; build_meta.build_sdist('dist')"

test-device: .venv/ready  ## models, loops and chapters on a pretend accelerator: what forgets to move a tensor fails without a GPU; DEVICE=cuda for a real one
	$(ON_DEVICE) -m pytest -q tests/pretend/check_models.py tests/pretend/check_loops.py
	$(ON_DEVICE) -m pytest -q -n $(WORKERS) tests/pretend/check_chapters.py

gpu: .venv/ready  ## on a machine with a GPU: how much of it pretraining uses (results/pretraining/gpu.json), then every chapter at its full size
	$(RUN) -m benchmarks.pretraining.gpu
	$(RUN) tools/build_book.py --profile full

notebooks: .venv/ready  ## run the chapters with nbval and compare the kept outputs
	$(RUN) -m pytest -q --nbval-lax chapters

bench: .venv/ready  ## side-by-side timings; writes results/. Many other scripts of benchmarks/ train, some for hours
	for name in bert.packed_inference translation.training_speed pretraining.data pretraining.step finetuning.speed; do $(RUN) -m benchmarks.$$name || exit 1; done

glue: .venv/ready  ## run again what the table of the chapter on GLUE shows: a day on two cores; needs D2LBERT_DATA
	$(RUN) -m benchmarks.finetuning.glue
	$(RUN) -m benchmarks.pretraining.value --model data/checkpoints/d2lbert-tiny
	for name in sst2 cola mrpc stsb_en rte sick; do $(RUN) -m benchmarks.finetuning.$$name || exit 1; done

soak: .venv/ready  ## kill a pretraining run 20 times, at random moments; send the server 200,000 bad requests; draw 1,000 examples a property
	D2LBERT_KILLS=20 $(RUN) -m pytest -q tests/system/commands/test_pretrain.py -k killed
	$(RUN) -m pytest -q tests/system/server/test_requests.py -k memory --soak 200000
	$(RUN) -m pytest -q tests/system/attacks/test_tokenizers.py -k many --soak 100000
	$(PYTEST) --hypothesis-profile=soak -m hypothesis tests

mutants: .venv/ready  ## plant bugs in a copy of the package and see whether its tests notice; writes results/. An hour
	OMP_NUM_THREADS=1 $(RUN) -m benchmarks.tests.mutants

clean:  ## remove what was built; .venv, dist and downloaded data stay
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/ready: requirements/lock.txt requirements/mxnet.txt requirements/weights.txt requirements/seqeval.txt pyproject.toml
	PYTHON="$(PYTHON)" bash tools/setup_venv.sh
