// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures HelmOp with its real manager on real API servers. The baseline in the same run is a plain loop
// over the Helm SDK.
//
//   - clusters: some workload clusters with their own API servers and several large charts in each. It measures the
//     cost of installations, upgrades, idle time and uninstallations, compared with the plain loop.
//   - trouble: the same clusters, together with others whose API servers hang or refuse connections.
//   - neighbours: the releases of a tenant, together with a tenant with hostile charts, registries and clusters.
//   - fleet: a thousand Clusters that share a few API servers. It measures installations, memory, a restart of the
//     manager, one more Cluster, upgrades, and a tag that moves.
//   - shards: thousands of Clusters that several managers share, for one size of the fleet after the other. It measures
//     how all figures grow, and a manager that is killed. It does not run by default.
//   - peers: HelmOp, the plain loop, CAAPH, Flux and Sveltos, one after the other, with the same charts and as many
//     Clusters of their own. It builds the other tools, and does not run by default: see "make bench-peers".
//   - arithmetic: the planner of rollouts and the status of a HelmOp with ten thousand Clusters, as Go benchmarks.
//   - engine: HelmOp's release engine alone compared with the plain loop. It does not run by default.
//
// Run it with "make bench", or "BENCH=quick make bench". "go run ./test/bench -help" explains the flags. It runs on
// Linux only.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// settings are the flags.
type settings struct {
	scenarios                              string
	servers, charts, workers               int
	troubled, troubleCharts, rounds        int
	releases                               int
	fleet, fleetCharts, fleetServers, late int
	fleetSizes                             string
	shards, shardCharts, shardServers      int
	shardMemory                            int64
	shardLease                             time.Duration
	peers                                  string
	peerConcurrency                        int
	idle                                   time.Duration
	json, profiles, manager, hostile       string
	check, keep                            bool
}

func (s *settings) addFlags(quick bool) {
	pick := func(full, small int) int {
		if quick {
			return small
		}
		return full
	}
	pickText := func(full, small string) string {
		if quick {
			return small
		}
		return full
	}
	flag.StringVar(&s.scenarios, "scenario", "clusters,trouble,neighbours,fleet,arithmetic",
		"what to measure, in this order")
	flag.IntVar(&s.servers, "servers", pick(20, 4),
		"workload clusters with an API server of their own, for clusters, trouble and engine (BENCH=quick: 4)")
	flag.IntVar(&s.charts, "charts", pick(5, 3), "large charts in each of them (BENCH=quick: 3)")
	flag.IntVar(&s.workers, "workers", 20, "concurrent actions of the manager, and of the plain loop")
	flag.DurationVar(&s.idle, "idle", time.Duration(pick(30, 10))*time.Second,
		"time without changes in measurements of idleness (BENCH=quick: 10s)")
	flag.IntVar(&s.troubled, "troubled", pick(12, 4), "clusters that hang, or refuse connections (BENCH=quick: 4)")
	flag.IntVar(&s.troubleCharts, "trouble-charts", pick(4, 1), "charts in the scenario trouble (BENCH=quick: 1)")
	flag.IntVar(&s.rounds, "rounds", 1, "rounds of the scenarios trouble and engine; the medians count")
	flag.IntVar(&s.releases, "releases", pick(11, 5),
		"releases of the scenario neighbours, alone and beside each hostile tenant; the medians count (BENCH=quick: 5)")
	flag.StringVar(&s.hostile, "hostile", ".", "kinds of hostile tenants in the scenario neighbours, a regular expression")
	flag.IntVar(&s.fleet, "fleet", pick(1000, 60), "Clusters of the scenario fleet (BENCH=quick: 60)")
	flag.IntVar(&s.fleetCharts, "fleet-charts", pick(5, 3), "small charts in each of them (BENCH=quick: 3)")
	flag.IntVar(&s.fleetServers, "fleet-servers", pick(4, 3),
		"API servers that they share, at most -servers (BENCH=quick: 3)")
	flag.IntVar(&s.late, "late", 3, "late Clusters in the scenarios fleet and shards; the medians count")
	flag.StringVar(&s.fleetSizes, "fleet-sizes", pickText("100,1000", "30,60"),
		"Clusters of the scenario shards, one fleet after the other; each fleet is compared with the previous one "+
			"(BENCH=quick: 30,60)")
	flag.IntVar(&s.shards, "shards", pick(4, 2), "shards of the scenario shards, each with a manager (BENCH=quick: 2)")
	flag.IntVar(&s.shardCharts, "shard-charts", 1, "small charts in each Cluster of the scenario shards")
	flag.IntVar(&s.shardServers, "shard-servers", pick(4, 2),
		"API servers that the Clusters of the scenario shards share (BENCH=quick: 2)")
	flag.Int64Var(&s.shardMemory, "shard-memory", 2<<30,
		"memory limit of each manager in the scenario shards, in bytes, as of the container in a Deployment")
	flag.DurationVar(&s.shardLease, "shard-lease", 30*time.Second,
		"lease of the managers in the scenario shards: the manager after a killed one waits until the lease expires")
	flag.StringVar(&s.peers, "peers", "helmop,plain,caaph,flux,sveltos",
		"tools of the scenario peers, in this order; ratios are to helmop, if it is the first")
	flag.IntVar(&s.peerConcurrency, "peer-concurrency", 0,
		"releases that each tool of the scenario peers reconciles at once; default: each tool's own default, and "+
			"-workers for the plain loop")
	flag.StringVar(&s.json, "json", "", "file for the figures as JSON")
	flag.StringVar(&s.profiles, "profiles", "",
		"folder for CPU, heap, mutex and goroutine profiles of the manager, phase by phase")
	flag.StringVar(&s.manager, "manager", "", "path of the manager to measure; default: build it")
	flag.BoolVar(&s.check, "check", false, "exit with an error if a target is missed")
	flag.BoolVar(&s.keep, "keep", false, "keep logs")
}

// scenarios are the scenarios by name.
var scenarios = map[string]struct {
	run func(context.Context, *bench) error
	// world is true if the scenario needs API servers.
	world bool
}{
	"clusters":   {run: clusters, world: true},
	"trouble":    {run: trouble, world: true},
	"neighbours": {run: neighbour, world: true},
	"fleet":      {run: fleet, world: true},
	"engine":     {run: engine, world: true},
	// The scenario peers starts a world whose manager has the default concurrency.
	"peers": {run: comparePeers},
	// The scenario shards starts a world for each size.
	"shards":     {run: shards},
	"arithmetic": {run: arithmetic},
}

func main() {
	sandbox.Serve(rendering.Tasks(), bundle.Tasks())
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if len(os.Args) == 2 && os.Args[1] == contestant.Argument {
		exit(contestant.Serve(os.Stdin, os.Stdout))
	}
	s := settings{}
	s.addFlags(os.Getenv("BENCH") == "quick")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// bench is one run of this command.
type bench struct {
	settings
	world  *world.World
	report *report.Report
	began  time.Time
}

func (b *bench) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s: %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// run measures and reports. After an error, it reports the figures measured before.
func run(ctx context.Context, s settings) error {
	b := &bench{settings: s, began: time.Now(), report: &report.Report{About: map[string]string{
		"cpus": strconv.Itoa(runtime.NumCPU()), "go": runtime.Version(), "began": time.Now().UTC().Format(time.RFC3339),
	}}}
	flag.VisitAll(func(f *flag.Flag) { b.report.About["-"+f.Name] = f.Value.String() })
	err := b.measure(ctx)
	b.report.About["took"] = time.Since(b.began).Round(time.Second).String()
	if s.json != "" {
		err = errors.Join(err, b.report.Write(s.json))
	}
	err = errors.Join(err, b.report.Print(os.Stdout))
	missed := b.report.Missed()
	fmt.Printf("\n%s with %d CPUs, %d targets missed\n", b.report.About["took"], runtime.NumCPU(), len(missed))
	for _, text := range missed {
		fmt.Println("missed:", text)
	}
	if s.check && len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d targets were missed", len(missed)))
	}
	return err
}

func (b *bench) measure(ctx context.Context) (err error) {
	names, needsWorld := strings.Split(b.scenarios, ","), false
	for i, name := range names {
		scenario, ok := scenarios[name]
		if !ok {
			return fmt.Errorf("there is no scenario %q", name)
		}
		if scenario.world && slices.Contains(names[:i], "fleet") {
			return fmt.Errorf("the scenario %s must be before fleet, which stops most of the API servers", name)
		}
		needsWorld = needsWorld || scenario.world
	}
	if b.profiles != "" {
		if err := os.MkdirAll(b.profiles, 0o755); err != nil {
			return err
		}
	}
	if needsWorld {
		stop, err := b.startWorld(ctx, b.serversFor(names), 0)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	for _, name := range names {
		b.log("scenario %s", name)
		if err := scenarios[name].run(ctx, b); err != nil {
			return fmt.Errorf("scenario %s: %w", name, err)
		}
	}
	return nil
}

// serversFor returns the number of workload API servers for some scenarios in one world.
func (b *bench) serversFor(names []string) int {
	servers := b.fleetServers
	for _, name := range names {
		if name != "fleet" && scenarios[name].world {
			servers = max(servers, b.servers)
		}
	}
	return servers
}

// startWorld starts the world of the following scenarios, with a number of workload API servers. gcPercent is GOGC of
// the API servers; 0 means their default.
func (b *bench) startWorld(ctx context.Context, servers, gcPercent int) (stop func() error, err error) {
	dir, err := os.MkdirTemp("", "helmop-bench-")
	if err != nil {
		return nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if b.keep {
		b.log("logs are in %s", dir)
		remove = func() error { return nil }
	}
	started, err := world.Start(ctx, world.Options{
		Dir: dir, Servers: servers, GCPercent: gcPercent, Workers: b.workers, Manager: b.manager, Profiles: b.profiles,
		Log: b.log,
	})
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	b.world = started
	return func() error { return errors.Join(started.Stop(context.WithoutCancel(ctx)), remove()) }, nil
}
