# One word per task. CI calls the same targets.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
RACE        := ./pipeline/... ./reservoir ./offline/... ./cmd/... ./internal/energy ./gpu ./gpu/telemetry ./gpu/internal/cuda
FUZZTIME    ?= 60s
PYTHON      ?= /usr/bin/python3

.PHONY: help check test race arm64 cross generate fuzz avx512 bench bench-peers chaos demo picture ptx ptx-mutants

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

check: ## formatting, vet, staticcheck, generated files, builds without cgo and for other systems
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run: gofmt -w ."; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	$(MAKE) generate cross
	@git diff --exit-code --stat || { echo "generated files differ from their sources: commit the result of make generate"; exit 1; }

test: ## all tests
	go test ./...

race: ## the concurrent packages under the race detector
	go test -race -short $(RACE)

# The arm64 engine held to its bits, all kernel shapes; the largest networks are
# left out because the reference takes minutes on them there.
arm64: ## the NEON engine's tests under qemu-aarch64 (Debian: qemu-user), about half a minute
	GOARCH=arm64 EUSN_REQUIRE=neon go test -count=1 -exec qemu-aarch64 \
	  -skip 'TestVector/neon/._thread|TestGeneric/Shapes/.*/(101|127|200|255|1024)|TestVector/neon/.*/Shapes/.*/(101|127|200|255|1024)|TestGeneric/BatchComposition|TestEpsRho' \
	  ./reservoir/canon ./reservoir/internal/kernel ./reservoir

# The AVX-512 level on an emulated Skylake-X; what is left out stands in internal/testing/bochs/main.go.
avx512: ## the AVX-512 kernels' tests under Bochs, for machines without it (Debian: bochs bochs-term isolinux syslinux-common genisoimage), minutes
	go run ./internal/testing/bochs $(if $(KERNEL),-kernel $(KERNEL))

cross: ## builds that must work: no cgo, no NVML, arm64, other systems
	CGO_ENABLED=0 go build -o /dev/null ./cmd/eusn-stream
	go test -tags nonvml ./gpu/telemetry
	go vet -tags purego ./reservoir/... && go build -tags purego -o /dev/null ./cmd/eusn-stream
	GOARCH=arm64 go build -o /dev/null ./cmd/eusn-stream
	GOARCH=386 go build -o /dev/null ./cmd/eusn-stream
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/eusn-stream
	GOOS=windows go build -o /dev/null ./cmd/eusn-stream
	GOOS=windows GOARCH=arm64 go build -o /dev/null ./cmd/eusn-stream
	GOARCH=arm64 go vet ./reservoir/...

generate: ## regenerate what is generated
	go generate ./reservoir/canon ./reservoir/internal/kernel ./internal/dense ./internal/config ./gpu/telemetry

ptx: ## compile the GPU kernels (clang-19 19.1.7, as in Debian 12)
	go generate ./gpu/kernels

ptx-mutants: ## every planted kernel bug must be caught (minutes)
	EUSN_MUTANTS=all go test -count=1 -run Mutants -timeout 60m ./gpu/kernels

fuzz: ## every fuzz target for FUZZTIME (default 60s)
	@for p in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$p/*_test.go | cut -c6-); do \
	    echo "== $$p $$f"; go test $$p -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	  done; done

bench: ## benchmarks of every package
	go test -run '^$$' -bench . ./...

bench-peers: ## our engines beside NumPy, PyTorch, gonum, ReservoirPy (PEERS="--threads 2 --only A")
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go build -o $$dir/eusn-stream ./cmd/eusn-stream && go build -o $$dir/gonum ./tools/peers/gonum && \
	$(PYTHON) tools/peers/peers.py --ours $$dir/eusn-stream --gonum $$dir/gonum $(PEERS)

chaos: ## the fault harness, all of it (CHAOS="--matrix short" for less)
	go run ./integration/chaos $(CHAOS)

demo: ## the whole stage on simulated sensors
	go run ./cmd/eusn-stream demo

picture: ## draw the README's picture from a run of the program
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go build -o $$dir/eusn-stream ./cmd/eusn-stream && go run ./tools/picture -program $$dir/eusn-stream
