# HelmOp's build. `make` alone explains the targets.
#
# You need only Go, Bash, Git and GNU Make 4. The other tools are Go modules pinned in hack/tools. The go command builds
# each into its own cache at the first use. Targets that test never write into the source tree. Targets that generate
# do, and `verify` checks their output.

# Make 3.81, the version of macOS, ignores .SHELLFLAGS, so failing commands would not stop a recipe.
ifneq ($(filter 3.%,$(MAKE_VERSION)),)
$(error this is GNU Make $(MAKE_VERSION), and HelmOp needs GNU Make 4 or later. On macOS: brew install make, then gmake)
endif

# A misspelt variable or a failing command in the middle of a recipe must stop the build.
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

##@ Variables (make TARGET NAME=value)

RELEASE_TAG ?= v0.1.0## Version of `build`, `image`, `release-manifests` and `release`
IMG ?= ghcr.io/helmop/cluster-api-helmop-controller## Image name, without tag
TAG ?= $(RELEASE_TAG)## Image tag
PLATFORMS ?= linux/amd64,linux/arm64## Platforms of `image`
PUSH ?= 0## 1: `image` and `release` also push to the registry of IMG, with the credentials of the Docker configuration
PLAIN_HTTP ?= 0## 1: `image` and `release` push over http, to a local registry
CLI_PLATFORMS ?= $(PLATFORMS),darwin/amd64,darwin/arm64,windows/amd64,windows/arm64## Platforms of kubectl-helmop
CHARTS ?= $(dir $(IMG))charts## Folder of a registry to which `release` pushes the Helm chart
COMPONENTS ?= $(IMG)-components## Repository to which `release` pushes the components for clusterctl
KEY ?=## File with the private key with which `release` signs
BUILDER ?=## URI of the machine that builds, for the provenance of `release`
DIRTY ?= 0## 1: `release` also builds a tree with changes that are not committed
WAIT ?= 1## 0: `demo` checks the outcome and exits
PKG ?= ./test/e2e/...## Packages of `deflake`
RUN ?= .## Tests of `deflake`, a regular expression
COUNT ?= 20## How often `deflake` repeats
ROUNDS ?= 300## Rounds of `test-random`
HANDOVERS ?= 500## Changes of the owner in `test-handovers`
BENCH ?= full## quick: `bench` takes few clusters and rounds, and `bench-go` few repetitions
BENCH_ARGS ?=## Flags of `bench`, such as -scenario fleet -json figures.json -profiles DIR -check
FLEET_CLUSTERS ?= 10000## Clusters of `bench-fleet`, or several sizes that it compares: 100,1000,10000
FLEET_CHARTS ?= 1## Charts in each Cluster of `bench-fleet`
FLEET_SHARDS ?= 4## Shards of `bench-fleet`, each with a manager
PEERS ?= helmop,plain,caaph,flux,sveltos## Tools that `bench-peers` compares
PEERS_CLUSTERS ?= 20## Clusters of each tool in `bench-peers`
PEERS_CHARTS ?= 5## Charts in each Cluster of `bench-peers`
SOAK ?= 30m## Duration of the changes in `soak`
E2E_TIMEOUT ?= 90m## Time limit of `test-e2e`
RELEASE_TIMEOUT ?= 90m## Time limit of `test-release`
CAPD_TIMEOUT ?= 3h## Time limit of `test-capd`
E2E_RUN ?= .## Tests of `test-e2e`, a regular expression
KUBERNETES ?= 1.34 1.35## Minor versions of `test-versions`, of those in hack/tools

MODULE := github.com/helmop/cluster-api-addon-provider-helmop
COMMIT := $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# The commit's date instead of the clock's, so that a commit always builds the same bytes.
COMMIT_DATE := $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || \
	echo unknown)
LDFLAGS := -s -w -X $(MODULE)/internal/version.Version=$(RELEASE_TAG) \
	-X $(MODULE)/internal/version.Commit=$(COMMIT) -X $(MODULE)/internal/version.Date=$(COMMIT_DATE)

# Every build has the same flags: the go command compiles a package once for each set of flags, which takes most of the
# time on a new machine. Only the race detector needs other flags.
CGO_ENABLED ?= 0
export CGO_ENABLED
# How long tests wait for a condition if they name no time: a busy machine needs more than the default of one second.
export GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT ?= 2m
# The compiler and the linker collect garbage less often than by default. They take a tenth less CPU time, and up to a
# third more memory. This does not change what they write, so they share the build cache with other builds.
BUILD_FLAGS := -trimpath '-toolexec=env GOGC=400 GOMEMLIMIT=2GiB'
GOFLAGS ?=
override export GOFLAGS := $(strip $(subst $(BUILD_FLAGS),,$(GOFLAGS)) $(BUILD_FLAGS))

# `go tool` runs the pinned version and keeps the program in the build cache. With -modfile, the working directory stays
# the same.
CONTROLLER_GEN := go tool -modfile=hack/tools/codegen/go.mod controller-gen
KUSTOMIZE := go tool -modfile=hack/tools/codegen/go.mod kustomize
ALIGNED := . hack/tools/caaph hack/tools/codegen hack/tools/prometheus hack/tools/testbed
CRD_REF_DOCS := go tool -modfile=hack/tools/apidocs/go.mod crd-ref-docs
HUGO := go tool -modfile=hack/tools/site/go.mod hugo
GOLANGCI_LINT := go tool -modfile=hack/tools/lint/go.mod golangci-lint
ACTIONLINT := go tool -modfile=hack/tools/actions/go.mod actionlint
GOVULNCHECK := go tool -modfile=hack/tools/vulncheck/go.mod govulncheck

.PHONY: help
help: ## Explain the targets and variables (this text)
	@awk 'BEGIN {FS = "##"} \
		/^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z0-9-]*:.*##/ {split($$1, t, ":"); printf "  %-20s%s\n", t[1], $$2} \
		/^[A-Z0-9_]+ \?=.*##/ {name = $$1; sub(/ \?=.*/, "", name); value = $$1; sub(/^[^=]*= ?/, "", value); \
			printf "  %-20s%s [%s]\n", name, ($$2 ~ /^ / ? $$2 : " " $$2), value}' $(MAKEFILE_LIST)

##@ Try it

.PHONY: demo
demo: ## Three Clusters, an OCI registry and HelmOp on this machine; stop with Ctrl-C (WAIT)
	@go run ./test/testbed/cmd/testbed-binaries -quiet -for demo -compile . -compile ./test/demo
	WAIT=$(WAIT) go run ./test/demo

##@ Test

# Packages whose own code starts goroutines or guards state run with the race detector, which takes five times the CPU
# time. All others run without it. Of the first group, long tests without concurrency also run without it: SKIP_RACE,
# and all but two cases of each table of package sample. Tests that make a process run out of memory run without it,
# too, because the process would end in another way. Packages whose tests take long come first in each list, so that
# both cores have work until the end.
RACE := ./internal/helmclient ./internal/objectwatch ./internal/cli/fleet ./controllers/helmoprelease \
	./controllers/cluster ./controllers/helmop ./hack/cmd/testrun ./internal/actionprogress ./internal/artifacts \
	./internal/async ./internal/attempts ./internal/brieflru ./internal/bundle ./internal/bytebudget ./internal/bytelru \
	./internal/celexpr ./internal/cli ./internal/cli/bill ./internal/cli/kube ./internal/cli/migrate \
	./internal/cli/registryaccess ./internal/cli/steer ./internal/cli/support ./internal/clusterlink ./internal/clustermove ./internal/clusterview \
	./internal/compact ./internal/drift ./internal/helmclient/actionmemory ./internal/helmclient/apply \
	./internal/helmclient/connections ./internal/helmclient/dryrun ./internal/helmclient/knownobjects \
	./internal/helmclient/manifests ./internal/helmclient/recordcodec ./internal/helmclient/records \
	./internal/helmclient/waits ./internal/kindcache ./internal/manager ./internal/memory ./internal/oci \
	./internal/oci/cloud ./internal/oci/credentials ./internal/oci/endpoint ./internal/oci/flight ./internal/oci/store \
	./internal/oci/transport ./internal/oci/verification ./internal/ownwrites ./internal/preflight ./internal/preview \
	./internal/queue ./internal/recordreads ./internal/recordstorage ./internal/redaction ./internal/render \
	./internal/report ./internal/resolution ./internal/runningactions ./internal/sandbox ./internal/selection \
	./internal/slots ./internal/templating ./internal/ui ./internal/watches ./test/testbed/apiserver \
	./test/testbed/cutproxy ./test/testbed/otlp ./test/testbed/process ./test/testbed/registry
SKIP_RACE := ^Test(Bootstrap|CodecIsBounded|PackValues|UpdateReservesMemory|IntegrationBig|IntegrationFaultManyObjects|KustomizationLimits|KustomizeFetchesNothing|GzipBombs|TextBombs|Limits\b|PreviewOfManyClusters|RevisionsAreBoundedInBytes)
CUT := ^Test(Integration)?(Store)?(Cut|HandOver)
SPLIT = $(shell grep -lE '^func $(SKIP_RACE:^%=%)' $(wildcard $(RACE:%=%/*_test.go)) | xargs -n 1 dirname | sort -u)
LONG := $(MODULE)/test/packaging $(MODULE)/test/testbed $(MODULE)/test/docs
PLAIN = $(LONG) $(filter-out $(LONG),$(shell go list ./... | grep -v -x -F -f <(go list $(RACE) ./test/e2e)))

# The flags of tests with the race detector. With CGO_ENABLED=1, kustomize can load plugins written in Go. The import of
# plugin would make Go link each program with the linker of C, and keep all exported methods. HelmOp is built with
# CGO_ENABLED=0 and allows no plugins, so the tag takes nothing away that HelmOp has.
DETECT := -race -tags=kustomize_disable_go_plugin_support

# The groups of hack/cmd/testrun. Tests need no vetting: `make lint` vets more than `go test` does. Go would use a cached
# result of the module hack/tools/prometheus after a change of an alert, because the alerts are outside of this module.
TEST_RACE = -- CGO_ENABLED=1 HELMOP_SAMPLE=2 $(DETECT) -vet=off -timeout=40m '-skip=$(SKIP_RACE)' $(RACE)
TEST_PLAIN = -- -vet=off -timeout=40m $(PLAIN) -- -vet=off -timeout=40m '-run=$(SKIP_RACE)|$(CUT)' $(SPLIT) \
	-- -C=hack/tools/prometheus -vet=off -count=1 -timeout=40m .
TEST_E2E = -- -vet=off -count=1 -timeout=$(E2E_TIMEOUT) '-run=$(E2E_RUN)' ./test/e2e

.PHONY: test
test: testbed-binaries ## All tests: test-unit and test-e2e
	@go run ./hack/cmd/testrun $(TEST_RACE) $(TEST_PLAIN) $(TEST_E2E)

.PHONY: test-unit
test-unit: testbed-binaries ## All packages except the end-to-end suite; those with concurrency with the race detector
	@go run ./hack/cmd/testrun $(TEST_RACE) $(TEST_PLAIN)

.PHONY: test-e2e
test-e2e: testbed-binaries ## The end-to-end suite: HelmOp on real API servers and a real registry
	@go run ./hack/cmd/testrun $(TEST_E2E)

.PHONY: test-charts
test-charts: testbed-binaries ## The examples with public charts: names of values, and an installation; says which ran
	@HELMOP_CHART_MODULES=1 go test -count=1 -v -vet=off -run='^TestValueNames$$' ./examples
	@HELMOP_CHART_MODULES=1 go test -count=1 -v -vet=off -timeout=$(E2E_TIMEOUT) -run='^TestPublicCharts$$' ./test/e2e

.PHONY: test-kube-state-metrics
test-kube-state-metrics: ## The metrics of config/kube-state-metrics, by its own library, which takes minutes to build
	@go -C hack/tools/kubestatemetrics test -count=1 .

.PHONY: test-migrations
test-migrations: testbed-binaries ## The migrations, with the programs of all other tools, which take minutes to build
	@go run ./hack/cmd/testrun -- HELMOP_MIGRATIONS=1 -vet=off -count=1 -timeout=$(E2E_TIMEOUT) '-run=^TestMigrate' \
		./test/e2e

.PHONY: test-release
test-release: testbed-binaries ## Two releases, made, verified, installed, upgraded, removed as users do; takes minutes
	@go run ./hack/cmd/testrun -- HELMOP_RELEASE=1 -vet=off -count=1 -timeout=$(RELEASE_TIMEOUT) '-run=^TestPublished' \
		./test/e2e

.PHONY: test-permissions
test-permissions: testbed-binaries ## Each permission of the manager, taken away alone: the manager must miss it
	@go run ./hack/cmd/testrun -- HELMOP_PERMISSIONS=1 -vet=off -count=1 -timeout=$(E2E_TIMEOUT) \
		'-run=^TestEachPermissionIsNeeded$$' ./test/e2e

.PHONY: test-capd
test-capd: ## Clusters whose nodes and Pods run, by Cluster API's Docker provider; needs Docker, takes an hour
	@HELMOP_CAPD=1 go test -count=1 -v -vet=off -timeout=$(CAPD_TIMEOUT) -run='^TestDockerClusters$$' ./test/capd

.PHONY: test-cuts
test-cuts: testbed-binaries ## Actions interrupted at each of their requests, in every way; `test` runs a sample
	@HELMOP_SAMPLE=all go run ./hack/cmd/testrun -- -vet=off -count=1 -timeout=30m '-run=$(CUT)' ./internal/helmclient

.PHONY: test-random
test-random: testbed-binaries ## Two HelmOps, two managers and a person at one release, in random order (ROUNDS)
	@HELMOP_ROUNDS=$(ROUNDS) go run ./hack/cmd/testrun -- -vet=off -count=1 -timeout=60m \
		'-run=^TestIntegrationRandom$$' ./internal/helmclient

.PHONY: test-handovers
test-handovers: testbed-binaries ## Three releases change their HelmOp again and again, on real API servers (HANDOVERS)
	@HELMOP_HANDOVERS=$(HANDOVERS) go run ./hack/cmd/testrun -- -vet=off -count=1 -timeout=90m \
		'-run=^TestReleaseMovesBetweenHelmOps$$' ./test/e2e

.PHONY: test-hostile
test-hostile: testbed-binaries ## Hostile tenants, one kind at a time: another tenant waits at most twice as long as usual
	@HELMOP_STRICT=1 go run ./hack/cmd/testrun -- -vet=off -count=1 -parallel=1 -timeout=$(E2E_TIMEOUT) \
		'-run=^Test(Hostile(Chart|Servers|User)|FairShares|SourceFaults)$$' ./test/e2e

.PHONY: test-race
test-race: testbed-binaries ## All packages except the end-to-end suite, with the race detector
	@go run ./hack/cmd/testrun -- CGO_ENABLED=1 $(DETECT) -vet=off -timeout=30m $(RACE) $(PLAIN)

.PHONY: test-versions
test-versions: testbed-binaries ## The engine on API servers of other versions of Kubernetes (KUBERNETES); takes minutes
	@for minor in $(KUBERNETES); do \
		tools=hack/tools/kubernetes-$$minor; assets=$(CURDIR)/out/kubernetes-$$minor; \
		version=$$(go -C "$$tools" list -m -f '{{.Version}}' k8s.io/kubernetes); \
		stamp="-X k8s.io/component-base/version.gitVersion=$$version"; \
		stamp="$$stamp -X k8s.io/component-base/version.gitMajor=$${minor%.*}"; \
		stamp="$$stamp -X k8s.io/component-base/version.gitMinor=$${minor#*.}"; \
		echo "kube-apiserver $$version ..."; \
		go -C "$$tools" build -trimpath -ldflags "-s -w $$stamp" -o "$$assets/kube-apiserver" \
			k8s.io/kubernetes/cmd/kube-apiserver; \
		KUBEBUILDER_ASSETS="$$assets" go test ./internal/helmclient/... -run '^TestIntegration' -count=1 -timeout 20m; \
	done

.PHONY: bench
bench: testbed-binaries ## Compare HelmOp with a plain loop over the Helm SDK, on real API servers (BENCH, BENCH_ARGS)
	BENCH=$(BENCH) go run ./test/bench $(BENCH_ARGS)

.PHONY: bench-fleet
bench-fleet: testbed-binaries ## Measure a fleet in shards, on this machine (FLEET_CLUSTERS, FLEET_CHARTS, FLEET_SHARDS, BENCH_ARGS)
	go run ./test/bench -scenario shards -fleet-sizes $(FLEET_CLUSTERS) -shard-charts $(FLEET_CHARTS) \
		-shards $(FLEET_SHARDS) $(BENCH_ARGS)

.PHONY: bench-peers
bench-peers: testbed-binaries ## Compare HelmOp with a loop, CAAPH, Flux and Sveltos; builds them first (PEERS, BENCH_ARGS)
	go run ./test/bench -scenario peers -peers $(PEERS) -servers $(PEERS_CLUSTERS) -charts $(PEERS_CHARTS) $(BENCH_ARGS)

.PHONY: soak
soak: testbed-binaries ## Check that the manager does not grow while Clusters and values change and servers restart (SOAK)
	go run ./test/bench/soak -duration $(SOAK)

.PHONY: bench-go
bench-go: ## All Go benchmarks, without the tests (BENCH)
	go test ./... -run '^$$' -bench . -benchmem -benchtime $(if $(filter quick,$(BENCH)),5x,1s) -timeout 30m

.PHONY: deflake
deflake: ## Repeat tests until one fails (PKG, RUN, COUNT)
	CGO_ENABLED=1 go test $(PKG) $(DETECT) -run '$(RUN)' -count=$(COUNT) -failfast -timeout 120m

.PHONY: testbed-binaries
testbed-binaries: ## Get or build the programs of the test bed into the user's cache folder (etcd, kube-apiserver, …)
	@go run ./test/testbed/cmd/testbed-binaries -quiet

##@ Build

.PHONY: build
build: ## The manager, as bin/manager, and the command line, as bin/kubectl-helmop
	go build -ldflags '$(LDFLAGS)' -o bin/manager .
	go build -ldflags '$(LDFLAGS)' -o bin/kubectl-helmop ./cmd/kubectl-helmop

.PHONY: image
image: ## The container image, as an OCI layout in out/image (no container engine needed; IMG, TAG, PLATFORMS, PUSH)
	go run ./hack/cmd/image -output out/image -reference '$(IMG):$(TAG)' -platforms '$(PLATFORMS)' \
		-version '$(RELEASE_TAG)' -revision '$(COMMIT)' -created '$(COMMIT_DATE)' -ldflags '$(LDFLAGS)' \
		-push=$(PUSH) -plain-http=$(PLAIN_HTTP)

.PHONY: release-manifests
release-manifests: ## The files that clusterctl installs, in out/addon-helmop/RELEASE_TAG (IMG, TAG)
	KUSTOMIZE='$(KUSTOMIZE)' hack/release-manifests.sh '$(RELEASE_TAG)' '$(IMG)' '$(TAG)'

.PHONY: release
release: ## All files of a release, in out/addon-helmop/RELEASE_TAG (IMG, PLATFORMS, CLI_PLATFORMS, KEY, PUSH)
	@[[ '$(COMMIT)' != unknown && '$(COMMIT_DATE)' != unknown ]] || \
		{ echo 'This is no checkout of Git, so the commit is not known: set COMMIT and COMMIT_DATE' >&2; exit 1; }
	@[[ $$(git rev-parse --is-shallow-repository 2>/dev/null) != true ]] || \
		{ echo 'This checkout is shallow, without former commits: run git fetch --unshallow --tags' >&2; exit 1; }
	@[[ '$(DIRTY)' == 1 || -z $$(git status --porcelain) ]] || \
		{ echo 'The tree has changes that are not committed: commit them, or set DIRTY=1' >&2; exit 1; }
	rm -rf 'out/addon-helmop/$(RELEASE_TAG)'
	$(MAKE) --no-print-directory image release-manifests TAG='$(RELEASE_TAG)' PUSH=0
	go run ./hack/cmd/release -output 'out/addon-helmop/$(RELEASE_TAG)' -version '$(RELEASE_TAG)' -commit '$(COMMIT)' \
		-created '$(COMMIT_DATE)' -ldflags '$(LDFLAGS)' -platforms '$(CLI_PLATFORMS)' \
		-image-platforms '$(PLATFORMS)' -image '$(IMG)' \
		-charts '$(CHARTS)' -components '$(COMPONENTS)' $(if $(KEY),-key '$(KEY)') \
		$(if $(BUILDER),-builder '$(BUILDER)') -push=$(PUSH) -plain-http=$(PLAIN_HTTP)

.PHONY: release-login
release-login: ## Log in to the registry of IMG (environment: REGISTRY_USER, REGISTRY_PASSWORD); needs docker
	@docker login '$(firstword $(subst /, ,$(IMG)))' --username "$$REGISTRY_USER" --password-stdin \
		<<<"$$REGISTRY_PASSWORD"

.PHONY: release-sign-keyless
release-sign-keyless: ## Sign what `release PUSH=1` wrote and pushed, with the identity of a workflow; needs cosign
	hack/release/sign-keyless.sh 'out/addon-helmop/$(RELEASE_TAG)' out/release/pushed.txt

.PHONY: release-draft
release-draft: ## Create a draft of the release with its files on GitHub; needs gh
	gh release create '$(RELEASE_TAG)' --draft --verify-tag --title '$(RELEASE_TAG)' \
		$(if $(findstring -,$(RELEASE_TAG)),--prerelease) \
		--notes-file 'out/addon-helmop/$(RELEASE_TAG)/RELEASE_NOTES.md' out/addon-helmop/'$(RELEASE_TAG)'/*

.PHONY: docs-site
docs-site: ## The documentation as a web site, in out/site; the first run builds Hugo, which takes a minute or two
	@echo "hugo, built first if it is not in the build cache ..."
	$(HUGO) --source hack/site --destination '$(CURDIR)/out/site' --cleanDestinationDir

.PHONY: screenshots
screenshots: ## The pictures in docs/images; needs Chromium in the PATH, or its path in CHROMIUM
	go run ./test/screenshots

##@ Change

.PHONY: generate
generate: ## Write the deep-copy functions of the API types
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Write the CRDs and the manager's role, from the markers in api/ and controllers/
	$(CONTROLLER_GEN) crd paths=./api/... output:crd:artifacts:config=config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=system-manager-role paths=./controllers/... output:rbac:artifacts:config=config/rbac

.PHONY: api-docs
api-docs: ## Write the API reference, docs/reference/api.md, from the types in api/
	$(CRD_REF_DOCS) --log-level=WARN --source-path=api/v1alpha1 --config=hack/apidocs/config.yaml --max-depth=20 \
		--renderer=markdown --templates-dir=hack/apidocs/templates --output-path=docs/reference/api.md

.PHONY: cli-docs
cli-docs: ## Write the reference of the command line, docs/reference/cli.md, from the commands in internal/cli
	go run ./hack/cmd/clidocs -output docs/reference/cli.md

.PHONY: align
align: ## Raise dependencies so that the product, the test bed and the generators use the same version of each
	go run ./hack/cmd/align $(ALIGNED)

.PHONY: verify
verify: ## Check generated files, licence headers, go.mod files, and imports of Helm; changes nothing
	hack/verify.sh

.PHONY: lint
lint: ## Run the linters (.golangci.yml, actionlint); the first run builds them, which takes a minute or two
	@echo "actionlint and golangci-lint, built first if they are not in the build cache ..."
	$(ACTIONLINT)
	$(GOLANGCI_LINT) run ./...

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in the code that the programs call; needs the network
	$(GOVULNCHECK) ./...

.PHONY: clean
clean: ## Remove the files that the targets above created in this folder
	rm -rf bin out .demo _artifacts
