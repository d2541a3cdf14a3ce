# SPDX-License-Identifier: Apache-2.0 OR MIT
# Each target installs what it needs (Debian 12 or newer, as root or with sudo) and works on its own.

CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: build
build: ## Build the programs: target/release/touchmark and touchmarkd
	@tools/install.sh build
	$(CARGO) build --release -p touchmark

.PHONY: demo
demo: ## Sign a Debian file tree, enforce it on a stock kernel in a virtual machine, watch tampering be refused
	@tools/install.sh build vm
	$(CARGO) build --release -p touchmark -p touchmark-vm
	@tools/demo/run.sh

.PHONY: test
test: ## Run every test, those in the virtual machines on three Debian kernels included
	@tools/install.sh build vm test
	$(CARGO) test --workspace

.PHONY: table
table: ## Write the table of techniques into SECURITY.md
	@tools/install.sh build
	TOUCHMARK_WRITE_TABLE=1 $(CARGO) test -q -p touchmark-bypass security_md

.PHONY: lint
lint: ## Check formatting, lints and the documentation's links
	@tools/install.sh build
	$(CARGO) fmt --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

.PHONY: bench
bench: ## Measure what everything costs; results as JSON under build/bench
	@tools/install.sh build vm bench
	$(CARGO) build --release --workspace
	$(CARGO) run --release -p touchmark-bench -- all --out build/bench

.PHONY: fuzz
fuzz: ## Fuzz every parser for half a minute (needs a nightly Rust and cargo-fuzz)
	@for target in $$(cd fuzz && cargo fuzz list); do (cd fuzz && $(CARGO) +nightly fuzz run $$target -- -max_total_time=30) || exit 1; done

.PHONY: clean
clean: ## Remove what was built; downloads stay in the cache
	$(CARGO) clean
	rm -rf build
