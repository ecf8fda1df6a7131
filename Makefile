# SPDX-License-Identifier: Apache-2.0
# From a fresh clone on Debian 12, 13 or testing, as root, with nothing but git and make.

.PHONY: help demo demo-kubernetes check test test-release test-metrics test-gpu test-vm test-driver test-frameworks test-package test-distributions test-kernels test-kubernetes test-vm-full test-debug-kernel build bundle deb rpm image release docs docs-pictures man proto lint sizes format fuzz coverage bench bench-kubernetes bench-shares clean

help:
	@echo "make demo    two containers share a simulated T4, each inside its slice"
	@echo "make demo-kubernetes  pods share a simulated T4 on a cluster of one node; builds Kubernetes first"
	@echo "make check   after each edit: linters, the core, unit tests, one slice; two minutes"
	@echo "make test    before a change lands: this machine's tests and one virtual machine; twenty minutes"
	@echo "make test-release  everything, in shards; SHARD=NAME runs one of them, SHARD= with a wrong name lists them"
	@echo "make test-vm the kernel module in virtual machines; test-vm-full repeats more"
	@echo "make test-driver  the kernel module on NVIDIA's own driver, on a card made in software"
	@echo "make test-frameworks  PyTorch and CuPy fill slices of a simulated card; downloads 3 GB"
	@echo "make test-package  a node's life with the Debian packages: a clean Debian with systemd in a virtual machine"
	@echo "make test-distributions  README's commands on a bare Debian 12, 13 and testing"
	@echo "make test-kernels  the kernel module on the kernels of Debian 13 and testing, in virtual machines"
	@echo "make test-kubernetes  pods on a cluster of one node with Kubernetes' own components; builds those first"
	@echo "make test-metrics  a Prometheus scrapes the exporter beside simulated cards; downloads 19 MB"
	@echo "make test-debug-kernel  the same on a kernel that checks itself; builds that kernel first"
	@echo "make test-gpu  checks on a real GPU; says so and does nothing where there is none"
	@echo "make build   virtual environment and C parts only"
	@echo "make bundle  one folder that needs nothing of its node, as an archive, into dist/"
	@echo "make deb     the bundle as Debian packages, into dist/; make rpm: as rpm packages"
	@echo "make image   both images of a cluster, by podman; REGISTRY=NAME stands before their names, BASE=IMAGE is their Debian"
	@echo "make release KEY=SECRET.pem  all files of a release from its tag, with checksums and a signature, into dist/release"
	@echo "make docs    the documentation site, into dist/docs; docs-pictures: draw its pictures of terminals anew"
	@echo "make lint    linters only (after make build or make test)"
	@echo "make sizes   count lines of code and words of documents"
	@echo "make format  rewrite Python and C in the project's style"
	@echo "make fuzz    fuzz the C core for SECONDS (60) each, and keep what was found; coverage: which lines that reaches"
	@echo "make bench   measure what the parts cost"
	@echo "make bench-kubernetes  how many pods with parts of GPUs Kubernetes places on 5,000 made-up nodes; a quarter of an hour"
	@echo "make bench-shares  compare shares of GPU time with what each policy says, on a simulated card"
	@echo "make clean   remove everything that was built"

demo:
	@scripts/demo

# The first time ten minutes, to compile Kubernetes.
demo-kubernetes:
	@scripts/kubernetes/demo

check:
	@scripts/test check

test:
	@scripts/test test

# SHARD=NAME for one of them, or several names.
test-release:
	@scripts/test release $(SHARD)

test-vm:
	@scripts/test-vm

test-driver:
	@scripts/test-driver

# 3 GB from PyPI.
test-frameworks:
	@scripts/test-frameworks

# Ten minutes, and a few hundred megabytes from Debian's archive.
test-package:
	@CGPU_VM_PACKAGE=1 scripts/test-vm -m own_disk

test-vm-full:
	@CGPU_VM_FULL=1 scripts/test-vm

# A quarter of an hour, and a gigabyte from Debian's archive the first time.
test-distributions:
	@scripts/test-distributions

# As long as make test-vm for each, and half a gigabyte from Debian's archive the first time.
test-kernels:
	@scripts/test-kernels

# The first time it compiles Kubernetes: six minutes, and 4 GB in ~/.cache and ~/go.
test-kubernetes:
	@scripts/test-kubernetes

# 19 MB from Debian's archive.
test-metrics:
	@scripts/bootstrap test
	@.venv/bin/python -m tests.exporter.prometheus

# One test may take longer there than pytest's limit for a test allows.
test-debug-kernel:
	@scripts/debug-kernel kmod/build/debug-kernel
	@CGPU_VM_KERNEL=kmod/build/debug-kernel scripts/test-vm -o timeout=1500

test-gpu:
	@scripts/test-gpu

build:
	@scripts/bootstrap build

bundle:
	@install/packaging/build-bundle

deb:
	@install/packaging/build-packages deb

rpm:
	@install/packaging/build-packages rpm

image:
	@REGISTRY=$(REGISTRY) scripts/kubernetes/build-image $(if $(BASE),--build-arg BASE=$(BASE))

# OPTIONS are podman's, for the images.
release:
	@install/packaging/release $(KEY) dist/release $(OPTIONS)

docs:
	@scripts/bootstrap docs
	@.venv/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet -b html -c docs . dist/docs
	@echo "docs: dist/docs/index.html"

# As make demo, so as root.
docs-pictures:
	@scripts/bootstrap demo
	@scripts/bootstrap docs
	@PATH=$$PATH:/usr/sbin:/sbin .venv/bin/python -m scripts.pictures.terminals

proto:
	@.venv/bin/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. cgpu/kubernetes/proto/*.proto

man:
	@.venv/bin/python -m cgpu.install.packaging.man docs/man

lint:
	@scripts/lint

sizes:
	@git ls-files -z | .venv/bin/python scripts/count_sizes.py

format:
	@.venv/bin/ruff check --quiet --fix-only .
	@.venv/bin/ruff format .
	@$(MAKE) --no-print-directory -C kmod format

fuzz:
	@scripts/fuzz $(or $(SECONDS),60)

coverage:
	@scripts/core-coverage

bench:
	@scripts/bench

# On an idle machine with 8 GiB of memory. OPTIONS are those of scripts/kubernetes/bench.
bench-kubernetes:
	@scripts/kubernetes/bench $(OPTIONS)

# In virtual time: a few seconds.
bench-shares:
	@scripts/bootstrap build
	@.venv/bin/python -m benchmarks.shares

clean:
	@$(MAKE) --no-print-directory -C kmod clean
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis dist reports
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
