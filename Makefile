# "make build" and "make test" are all a newcomer needs; "make help" lists the rest.

# A checkout's state must not show in what is built from it.
export GOFLAGS := -buildvcs=false

CNIBAKE := go run ./cmd/cnibake
# Linters, pinned in a module of their own so that they do not weigh on ours.
TOOL := go tool -modfile=hack/tools/go.mod

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every artifact into dist/
	$(CNIBAKE) build

.PHONY: test
test: ## Run all tests (as root, and after hack/install-test-tools, none is skipped)
	go test -timeout 30m ./...

.PHONY: test-short
test-short: ## Run the tests without the slowest ones
	go test -short ./...

.PHONY: fuzz
fuzz: ## Fuzz every parser for FUZZTIME (10s) each
	hack/fuzz $(or $(FUZZTIME),10s)

.PHONY: bench
bench: ## Measure sizes, build times and what a node pays, side by side in one run (as root)
	go run ./hack/bench

.PHONY: lint
lint: ## Check formatting, vet and staticcheck
	@unformatted=$$(gofmt -l cmd extension builder profiles hack); test -z "$$unformatted" || { echo "gofmt would change: $$unformatted"; exit 1; }
	go vet ./...
	cd hack/containerd && go vet ./...
	cd hack/kubernetes && go vet ./...
	cd hack/cosign && go vet ./...
	cd hack/talos && go vet ./...
	$(TOOL) staticcheck ./...
	shellcheck hack/e2e-kubernetes hack/e2e-talos hack/fuzz hack/install-test-tools hack/kubernetes-programs hack/pin hack/refresh-releases hack/talos-packages .ci/run

.PHONY: vulnerabilities
vulnerabilities: ## Report known vulnerabilities in what we link (needs the network)
	-$(TOOL) govulncheck ./...

.PHONY: docs
docs: ## Regenerate the reference in docs/ from the code
	go test ./cmd/cnibake -run TestReference -update
	go generate ./extension/lint

.PHONY: e2e-containerd
e2e-containerd: ## Show that containerd 2.x merges our configuration part (compiles containerd)
	cd hack/containerd && go test -timeout 30m ./...

.PHONY: e2e-cri
e2e-cri: ## Let containerd run our image and make a sandbox with what it staged (as root)
	hack/e2e-kubernetes cri

.PHONY: e2e-kubernetes
e2e-kubernetes: ## Run Kubernetes with Multus on nodes of this machine (as root; first compiles it)
	hack/e2e-kubernetes

.PHONY: e2e-talos
e2e-talos: ## Hold the extensions to Talos's own imager and boot them in QEMU (as root)
	hack/talos-packages
	hack/e2e-talos

.PHONY: e2e-cosign
e2e-cosign: ## Hold signatures to the real cosign program, both ways (compiles cosign: 10 minutes)
	cd hack/cosign && go test -timeout 60m ./...

.PHONY: e2e-all
e2e-all: e2e-containerd e2e-cosign e2e-kubernetes e2e-talos ## Run every end-to-end test

.PHONY: release
release: ## Build cnibake itself for every platform, with its version, and with it dist/
	for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} go build -buildvcs=true -trimpath -ldflags "-s -w" \
			-o dist/cnibake-$${platform%/*}-$${platform#*/} ./cmd/cnibake || exit 1; \
	done
	dist/cnibake-$$(go env GOHOSTOS)-$$(go env GOHOSTARCH) build
	cd dist && sha256sum cnibake-* >> SHA256SUMS

.PHONY: clean
clean: ## Remove dist/ and what builds keep in the user's cache directory
	$(CNIBAKE) cache clean
	rm -rf dist
