# One word per task. CI calls the same targets.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.7.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# Every package that starts a goroutine is in one of two lists (TestRaceList). RACE is
# what CI runs: the stage and its parts, the engines, the gateway, the metrics, the page,
# those that take longest first, so that no core waits for the last of them.
# make race-all runs RACE_REST, too.
RACE        := ./pipeline ./internal/watch ./reservoir/cpu ./gpu ./internal/pipeline/... ./internal/gateway ./internal/gateway/internal/... ./internal/producer ./internal/metrics ./internal/page
RACE_REST   := ./client ./internal/... ./pipeline/... ./offline ./gpu/internal/... ./integration/chaos ./tools/capacity ./tools/simulate ./tools/mutants
# Tests of one goroutine that the race detector takes long for: the plain engine,
# vector engines on one thread, and what the GPU engine's host side does the same way
# again, with other batches and shapes. Of the shapes that threads share, the small ones. Programs
# of others (node, promtool) too: the detector does not see into them.
ALONE       := ^(TestGeneric|TestGenericMixed|TestEven|TestManyFeatures|TestDashboardTypes|TestFaults)$$|^TestVector$$/./^(1_thread|single|narrow|wide)$$|^TestVectorMixed$$/./^threads=1$$|^TestHostConforms$$/^(BatchComposition|Shapes)$$|^TestVector$$/./^3_threads$$/^Shapes$$/./^(127|200|255|1024)$$
AGAIN       := ^(TestTwoJobsOnOneInput|TestTwoJobsUnderKills|TestSecondJobOnOneInput|TestResize(KeepsReadouts|OfLittle|Abandoned|Refused|AbandonedMeanwhile)|TestPromotion(InCluster|OfTornEntry)|TestDiskFull|TestReplace(Interrupted|Refused|BesideALateWorker|WithALateJob)|TestBackfillOvertaken|TestReplayingIsNotReady|TestStatesAtRestOfAWideNetwork|TestMaxPayloadLowered|TestBelongingNotMade|TestClosedConnectionsAreReplaced|TestWipedStreams|TestFeaturesAreCarriedThroughCrashes|TestNumbersThroughCrashes|TestRowStoreRefuses|TestResizeInCluster|TestDamageStops|TestSnapshotsAreReadFromTheLeader|TestOnceUnderKills|TestKilledAfterEachMessage|TestDriftUnderKills)$$|^TestBackfill$$/^(gap|window|count|endless|early|.*front_end)$$
FUZZTIME    ?= 60s
PYTHON      ?= /usr/bin/python3

.PHONY: help where check test race race-all arm64 armv7 cross generate fuzz avx512 vuln mutants protocol-mutants simulate-mutants bench bench-peers chaos simulate simulate-corpus cases plants gateway-run loop-run upgrade otel demo picture ptx ptx-mutants wasm dist dist-check

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

where: ## which file: make where Q=hysteresis searches the package comments and their lists of files
	@find * -name '*.go' ! -name '*_test.go' | sort | xargs awk -v q='$(Q)' 'FNR == 1 { doc = 0 } /^package / { nextfile } \
	/^\/\/ Package/ { doc = 1; dir = FILENAME; sub(/[^\/]*$$/, "", dir) } !doc || tolower($$0) !~ tolower(q) { next } \
	sub(/^\/\/   - /, "") && /^[^ ]*\./ { print dir $$0; next } { sub(/^\/\/[ \t]*/, ""); text = text FILENAME ":" FNR ": " $$0 "\n" } END { printf "%s", text }'

check: ## formatting, vet, staticcheck, known vulnerabilities, generated files, types without cgo and for other systems
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run: gofmt -w ."; exit 1; }
	go vet ./...
	GOGC=200 go run $(STATICCHECK) ./...
	$(MAKE) generate
	$(MAKE) -j2 --output-sync=target cross vuln
	@git diff --exit-code --stat || { echo "generated files differ from their sources: commit the result of make generate"; exit 1; }

test: ## all tests
	go test ./...

# Without go test's share of vet, which make check runs whole: no file here is for
# the race detector alone.
# AGAIN are tests of the stage that do what others do, with other formats or after
# other faults.
race: ## the stage, the engines, the gateway and what watches under the race detector
	go test -race -short -vet=off -p 3 -parallel 4 -timeout 15m -skip '$(ALONE)|$(AGAIN)' $(RACE)

race-all: ## every package that starts a goroutine under the race detector: a quarter of an hour
	go test -race -short -vet=off -p 3 -parallel 4 -timeout 15m -skip '$(ALONE)' $(RACE) $(RACE_REST)

# Which known vulnerabilities the code reaches; of a program with
# VULN="-mode=binary FILE" which of its bill of materials. The list changes
# without a commit, so a machine that cannot read it goes on.
VULNDB ?= https://vuln.go.dev
VULN   ?= ./...
vuln: ## known vulnerabilities of modules that the code calls, where https://vuln.go.dev can be reached (VULNDB, VULN)
	@if why=$$(curl -sSfL --max-time 10 -o /dev/null $(VULNDB)/index/db.json 2>&1); \
	then GOGC=200 go run $(GOVULNCHECK) -db $(VULNDB) $(VULN); \
	else echo "known vulnerabilities: not checked, the list cannot be read: $$why"; fi

# The arm64 engine held to its bits, all kernel shapes; the largest networks are
# left out because the reference takes minutes on them there, and so is most of what
# more threads repeat.
arm64: ## the NEON engine's tests under qemu-aarch64 (Debian: qemu-user), about half a minute
	GOARCH=arm64 EUSN_REQUIRE=neon go test -count=1 -exec qemu-aarch64 \
	  -skip 'TestVector/neon/._thread|TestGeneric/Shapes/.*/(101|127|200|255|1024)|TestVector/neon/.*/Shapes/.*/(101|127|200|255|1024)|TestGeneric/BatchComposition|TestGenericMixed/Golden/thinned|TestVectorMixed/neon/threads=3|TestVectorMixed/neon/threads=2/(Golden|BatchComposition)|TestEpsRho' \
	  ./internal/canon ./internal/kernel ./reservoir/...

# No kernels there: the plain engine's bits on a 32-bit processor, model files, a training.
armv7: ## the arithmetic and the plain engine under qemu-arm (Debian: qemu-user), seconds
	GOARCH=arm GOARM=7 go test -vet=off -count=1 -exec qemu-arm -run 'Pinned|Zeros|Special|^(TestGeneric|TestGenericMixed)$$/^Golden$$|TestStored|TestTrainMixed|^Example' \
	  -skip 'TestGenericMixed/Golden/thinned' ./internal/canon ./reservoir/...

# The AVX-512 level on an emulated Skylake-X; what is left out stands in internal/testing/bochs/main.go.
avx512: ## the AVX-512 kernels' tests, under Bochs where the CPU has none (Debian: bochs bochs-term isolinux syslinux-common genisoimage), minutes; what has passed is recorded
	go run ./internal/testing/bochs -record $(if $(KERNEL),-kernel $(KERNEL))

# Types finds what does not compile for a system without compiling it: all files,
# those of other modules too, in half a minute of one core instead of minutes. What
# assembler and linker say besides is for make dist, which builds every program that
# ships, and for the tests of arm64 and armv7.
.PHONY: cross-types cross-nonvml cross-purego cross-arm64 cross-386
cross: cross-types cross-nonvml cross-purego cross-arm64 cross-386 ## other builds have correct types: no cgo, no NVML, no assembly, arm64, 32 bits, macOS, Windows
cross-types:
	go run ./tools/typecheck linux/386/purego darwin/arm64 windows/amd64
cross-nonvml:
	go test -vet=off -tags nonvml ./internal/telemetry
# The tag purego and 386 leave out the same: every kernel in assembly.
cross-purego:
	go vet -tags purego ./reservoir/... ./internal/kernel ./internal/dense ./internal/offline/baseline && go test -vet=off -tags purego -run '^$$' ./reservoir/... ./internal/kernel ./internal/dense ./internal/offline/baseline
cross-386:
	GOARCH=386 go vet -tags purego ./reservoir/... ./internal/kernel
cross-arm64:
	GOARCH=arm64 go vet ./reservoir/... ./internal/kernel

generate: ## regenerate what is generated
	go generate ./internal/canon ./internal/kernel ./internal/dense ./internal/config ./readout/outcome ./internal/pipeline/wire ./internal/offline/baseline ./internal/telemetry

ptx: ## compile the GPU kernels (clang-19 19.1.7, as in Debian 12)
	go generate ./gpu/internal/kernels

wasm: ## compile edge/c/wasm.c, the page that model export --html writes (clang-19 and lld-19 19.1.7, as in Debian 12)
	go generate ./edge

ptx-mutants: ## every planted kernel bug must be caught (minutes)
	EUSN_MUTANTS=all go test -count=1 -run Mutants -timeout 60m ./gpu/internal/kernels

mutants: ## faults planted in the CPU kernels of kind mixed, of novelty and of readouts together: AVX2, AVX-512, NEON under qemu (MUTANTS="-each 5 -seed 2"; an hour)
	for engine in avx2 avx512 neon; do go run ./tools/mutants -engine $$engine $(MUTANTS) || failed=1; done; test -z "$$failed"

protocol-mutants: ## faults planted in the commit protocol and in what is stored before what: each must be found by its test, minutes (NAMES=resize for some)
	go run ./tools/mutants -protocol -names '$(NAMES)'

simulate-mutants: ## faults planted in the live stage, promotion and resize: a history of make simulate must find each in two minutes of CPU (NAMES=resize for some)
	go run ./tools/mutants -simulate -names '$(NAMES)'

fuzz: ## every fuzz target for FUZZTIME (default 60s)
	@for p in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' $$p/*_test.go | cut -c6-); do \
	    echo "== $$p $$f"; go test $$p -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	  done; done

bench: ## benchmarks of every package
	go test -run '^$$' -bench . ./...

bench-peers: ## our engines beside NumPy, PyTorch, gonum, ReservoirPy (PEERS="--threads 2 --only A")
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go build -o $$dir/eusn-stream ./cmd/eusn-stream && go build -o $$dir/ ./tools/peers/gonum ./tools/peers/recipe && \
	$(PYTHON) tools/peers/peers.py --ours $$dir/eusn-stream --gonum $$dir/gonum --recipe $$dir/recipe $(PEERS)

chaos: ## the fault harness, all of it (CHAOS="--matrix short" for less)
	go run ./integration/chaos $(CHAOS)

SEEDS := 1-100
simulate: ## histories of a job with faults, each in one process with a virtual clock, repeatable by seed (SEEDS=1-1000 SIMULATE="-twice")
	go run ./tools/simulate -seeds $(SEEDS) $(SIMULATE)

simulate-corpus: ## the histories that once found an error (integration/chaos/testdata/simulated.json)
	go run ./tools/simulate -plans integration/chaos/testdata/simulated.json $(SIMULATE)

# CASES is for go test -run, such as TestReportCases/A0; the 200 ports from CASES_PORT on are used.
CASES_PORT ?= 22100
cases: ## inputs, scripts and attacks that have shown faults, from ../shared/cases: does each hold now? two hours, prints a table
	npm ci --omit=optional --ignore-scripts --silent --no-audit --no-fund --prefix internal/cli/live/testdata/fieldbus
	EUSN_CASES=all EUSN_CASES_PORT=$(CASES_PORT) go test -count=1 -timeout 240m -v -run '$(CASES)' ./integration/cases

PLANTS ?= ../shared/datasets/industrial
plants: ## the commands of docs/plants on public recordings of machines, live too: prints the table, and with the default folder writes it into the pages; minutes (PLANTS=DIR; ONLY=turbofans for one page)
	EUSN_PLANTS=$(abspath $(PLANTS)) EUSN_PLANTS_WRITE=$(if $(filter ../shared/datasets/industrial,$(PLANTS)),1) \
	  go test -count=1 -v -timeout 60m -run '^TestPlants$$/$(ONLY)' ./integration/plants

# The directories that it names keep what was stored, and the programs' logs.
RUN      ?= 200x5000x30
RUN_NODE ?= 50x2000x12
gateway-run: ## the gateway's acceptance run: 10^6 samples through Debian's mosquitto with 30 kills, 10^5 of Node's mqtt with 12 (RUN, RUN_NODE=devices x samples x kills), minutes
	npm ci --silent --no-audit --no-fund --prefix integration/gateway
	EUSN_GATEWAY_RUN=$(RUN) EUSN_GATEWAY_NODE=$(RUN_NODE) go test -count=1 -v -timeout 3h -run '^TestGatewayRun(Node)?$$' ./internal/cli/live

LOOP ?= 20x24
loop-run: ## learning and promoting under load, with everything killed in between (LOOP=promotions x kills), minutes
	EUSN_LOOP_RUN=$(LOOP) go test -count=1 -v -timeout 1h -run '^TestLoopRun$$' ./internal/cli/loop

otel: ## traces into an OpenTelemetry Collector built from its modules, minutes the first time
	EUSN_REQUIRE=otelcol go test -count=1 -run '^TestFromProducerToPrediction$$' ./internal/traces

FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null)
upgrade: ## today's program replaces another under load, and is replaced by it: in place, and one worker after another (FROM=tag or commit, the newest tag by default; without a tag, by itself)
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	if [ -z "$(FROM)" ]; then echo "NO OTHER VERSION: there is no tag, so the current program replaces itself; specify FROM=commit for another"; \
	else git cat-file -e "$(FROM)^{commit}" 2>/dev/null || { echo "the history here does not have $(FROM): git fetch --unshallow --tags, then again"; exit 1; }; \
	git archive "$(FROM)" | tar -x -C $$dir && go build -C $$dir -o $$dir/older ./cmd/eusn-stream && export EUSN_OLDER=$$dir/older; fi && \
	go test -count=1 -v -run '^TestUpgrade' ./cmd/eusn-stream

demo: ## the whole stage on simulated sensors
	go run ./cmd/eusn-stream demo

picture: ## draw the README's picture from a run of the program
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go build -o $$dir/eusn-stream ./cmd/eusn-stream && go run ./tools/picture -program $$dir/eusn-stream

# CGO_ENABLED=0 shares the compiled packages with the release's own build.
PLATFORMS ?= linux/amd64,linux/arm64,linux/arm,darwin/amd64,darwin/arm64,windows/amd64
dist: ## the files of a release in the folder dist, from the commit that is checked out: packages, archives, image, checksums (PLATFORMS=linux/amd64 for less), minutes
	CGO_ENABLED=0 go run -trimpath ./tools/dist -platforms $(PLATFORMS)

dist-check: dist ## makes them again in another folder with an empty cache and compares, then installs and runs them: as root on Debian, minutes
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	git clone --quiet . $$dir/clone && git -C $$dir/clone checkout --quiet $$(git rev-parse HEAD) && \
	(cd $$dir/clone && GOCACHE=$$dir/cache CGO_ENABLED=0 go run -trimpath ./tools/dist -platforms $(PLATFORMS) -out $$dir/again >/dev/null) && \
	diff -r dist $$dir/again && echo "two builds have the same bytes" && \
	CGO_ENABLED=0 tools/dist/check.sh dist
