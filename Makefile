# make demo          two daemons, two network namespaces, one tunnel, before your eyes
# make test          every test: unit, race, emulated CPUs, interop, kernel guest
# make cross         build/wgd-TARGET for each target
# make bench         beside wireguard-go, on this machine; 12 minutes
# make bench-24k     beside the kernel's WireGuard, on an emulated router
# make bench-crypto  what the cryptography costs on each target, in instructions
#
# A fresh Debian with Go and make is enough: what else is needed gets installed.

GO    ?= go
VERSION ?= $(shell git describe --tags --always 2>/dev/null || echo development)
BUILD  = CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)'

# For build, vet and test alike, so that they share what is compiled.
export GOFLAGS := $(GOFLAGS) -trimpath

TARGETS    = amd64 arm64 armv5 armv6 armv7 mips mipsle
env_amd64  = GOARCH=amd64
env_arm64  = GOARCH=arm64
env_armv5  = GOARCH=arm GOARM=5
env_armv6  = GOARCH=arm GOARM=6
env_armv7  = GOARCH=arm GOARM=7
env_mips   = GOARCH=mips GOMIPS=softfloat
env_mipsle = GOARCH=mipsle GOMIPS=softfloat

# Packages without namespaces; of them, those that need no kernel that qemu-user
# cannot give.
UNITS  = $(shell $(GO) list ./... | grep -v '/test$$')
CRYPTO = ./crypto/chacha20poly1305 ./crypto/curve25519 ./crypto/blake2s
QEMU   = $(CRYPTO) ./noise ./conf
# Tests of ./tun without an interface.
PURE   = ^(TestSum|TestSuperPackets|TestChecksums|TestNext|TestWhat|TestMixed|TestRuns|TestRefusedRuns|TestErrors|TestGather|Fuzz)

qemu_amd64  = qemu-x86_64-static
qemu_arm64  = qemu-aarch64-static
qemu_armv5  = qemu-arm-static
qemu_armv7  = qemu-arm-static
qemu_mips   = qemu-mips-static
qemu_mipsle = qemu-mipsel-static

# $(call on,TARGET,CPU) tests on an emulated CPU, but for what starts programs, where
# qemu-user may hang in fork, and what asks for sockets and filters that it does not know.
on = $(env_$(1)) CGO_ENABLED=0 $(GO) test -exec '$(qemu_$(1)) -cpu $(2)' -skip 'OracleIsWG|LikeWG|UDP|NoAllocationsOnTheWire|OldKernel'

# Tests of ./test that are worth a daemon with the race detector, beside TestMatrixRace.
RACE   = Roaming|Rekey|Persistent|LinkDown|ListenPort|UAPI|Clients|StockWg|Independent|Flood|UpDown

.PHONY: all build cross vet deps test unit-test race-test qemu-test interop-test bench bench-24k bench-24k-be bench-crypto soak demo fuzz-short sizes targets kernel clean $(TARGETS:%=cross-%)

all: build

build:
	$(BUILD) -o wgd ./cmd/wgd

cross: $(TARGETS:%=cross-%)

$(TARGETS:%=cross-%): cross-%:
	$(env_$*) $(BUILD) -o build/wgd-$* ./cmd/wgd

vet:
	$(foreach t,$(TARGETS),$(env_$(t)) CGO_ENABLED=0 $(GO) vet ./... &&) :
	$(env_mips) CGO_ENABLED=0 $(GO) vet -tags wgd_small ./crypto/...

deps:
	@test/deps all

test: deps unit-test race-test qemu-test interop-test

# Compiled side by side, run one after the other: making and removing interfaces and
# namespaces waits for one lock of the kernel, and some tests bound how long an exit
# may take.
unit-test:
	@$(GO) test -run '^$$' $(UNITS) >/dev/null
	$(GO) test -p 1 $(UNITS)

race-test:
	@CGO_ENABLED=1 $(GO) test -race -run '^$$' $(UNITS) >/dev/null
	CGO_ENABLED=1 $(GO) test -race -p 1 $(UNITS)
	CGO_ENABLED=1 $(GO) build -race -o build/wgd-race ./cmd/wgd
	WGD=$(CURDIR)/build/wgd-race $(GO) test -count=1 -parallel 4 -run '$(RACE)' ./test

# All tests once for each instruction set; in short on CPUs that choose another
# implementation, which the first had as well, and for each build tag.
qemu-test:
	$(call on,mips,24Kc) $(QEMU)
	$(call on,mips,24Kc) ./device
	$(call on,mips,24Kc) -run '$(PURE)' ./tun
	$(call on,mipsle,24Kc) $(QEMU)
	$(call on,armv5,cortex-a7) $(QEMU)
	$(call on,arm64,cortex-a53) $(QEMU)
	$(call on,mips,74Kf) -short $(CRYPTO)
	$(call on,mips,4Kc) -short $(CRYPTO) ./noise
	$(call on,mipsle,4Kc) -short $(CRYPTO) ./noise
	$(call on,armv5,arm926) -short $(CRYPTO) ./noise
	$(call on,armv7,cortex-a7) -short $(CRYPTO) ./noise
	$(call on,amd64,qemu64) -short $(CRYPTO)
	$(call on,amd64,Nehalem) -short $(CRYPTO)
	$(call on,amd64,Haswell) -short $(CRYPTO)
	$(GO) test -tags purego -short $(CRYPTO) ./noise
	$(GO) test -tags wgd_small -short $(CRYPTO) ./noise
	$(call on,mips,24Kc) -tags purego -short $(CRYPTO)
	$(call on,mips,24Kc) -tags wgd_small -short $(CRYPTO) ./noise
	$(call on,mips,4Kc) -tags wgd_small -short $(CRYPTO)
	$(call on,mipsle,24Kc) -tags wgd_small -short $(CRYPTO)

# BENCH_ARGS adds to what bench/tunnel-bench and bench/24k are told and may overrule it:
#   make bench BENCH_ARGS='--variants one/plain --rounds 2 --json /dev/null'
#   make bench-24k BENCH_ARGS='--ms 300 kernel wgd wgd+WGD_OFFLOAD=none'
# The results they leave in bench/results are committed on purpose only.
WIREGUARD_GO = golang.zx2c4.com/wireguard
RESULTS      = bench/results

bench:
	@test/deps bench
	$(BUILD) -o build/bench/wgd ./cmd/wgd
	$(BUILD) -o build/bench/wireguard-go $(WIREGUARD_GO)
	@mkdir -p $(RESULTS)
	bench/tunnel-bench --variants one/plain,one/offload,all/offload --rounds 5 --seconds 2 --json $(RESULTS)/tunnel.json $(BENCH_ARGS) \
		'wireguard-go=$(CURDIR)/build/bench/wireguard-go -f {if}' 'wgd=$(CURDIR)/build/bench/wgd -f {if}' veth=@veth

bench-24k: cross-mipsle
	@test/deps bench-24k
	@test/guest/fetch-kernel build/kernel-mipsel 4kc-malta
	$(env_mipsle) $(BUILD) -o build/wireguard-go-mipsle $(WIREGUARD_GO)
	bench/24k --json $(RESULTS)/24k.json $(BENCH_ARGS)

# Big-endian, on a kernel of our own making: what is measured is the same, and then the
# content of what went through is compared.
KERNEL_BE = build/kernel-mips/vmlinux
bench-24k-be: cross-mips
	@test/deps bench-24k-be
	@[ -e $(KERNEL_BE) ] || bench/guest24k/build-be-kernel $(dir $(KERNEL_BE))
	$(env_mips) $(BUILD) -o build/wireguard-go-mips $(WIREGUARD_GO)
	bench/24k --be --kernel $(KERNEL_BE) --json $(RESULTS)/24k-be.json $(BENCH_ARGS)
	bench/24k --be --kernel $(KERNEL_BE) --json $(RESULTS)/24k-be-check.json --check 1000000 wgd wgd/kernel kernel/wgd wgd+outer=6

# The same numbers on any machine.
bench-crypto:
	@test/deps bench-crypto
	$(GO) run ./crypto/chacha20poly1305/bench/run
	$(GO) run ./crypto/curve25519/bench/run
	$(GO) run ./noise/bench/run

interop-test: kernel
	$(GO) test -count=1 -parallel 4 -timeout 20m ./test

# The long forms of tests that interop-test does in short: a full idle minute, memory in
# a cgroup, 200 MB through each mix of offloads, and half an hour (or WGD_SOAK_MINUTES)
# of changes under traffic.
soak:
	WGD_SOAK=1 $(GO) test -count=1 -timeout 120m -v -run 'TestIdlePeers|TestMemory|TestMixes|TestSoak' ./test

demo: build
	@test/deps demo
	@test/demo ./wgd

fuzz-short:
	@for p in $(UNITS); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime 10s $$p || exit 1; \
		done; \
	done

# Bytes of each stripped binary, the measure of a router's flash, and of assembly.
# TestSizes fails when one grows by more than 3 % over the recorded figure.
sizes:
	WGD_SIZES=record $(GO) test -count=1 -v -run TestSizes ./test

# What is built for, for the tests: a name and its environment a line.
targets:
	@$(foreach t,$(TARGETS),echo $(t) $(env_$(t));)

# The kernel whose own WireGuard is the peer in TestKernel.
kernel:
	@test/guest/fetch-kernel build/kernel

clean:
	rm -rf wgd build
