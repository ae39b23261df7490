/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Command bench compares HelmOp's release engine with a plain loop over the Helm SDK: the same charts on the same
// clusters, with the same number of workers, in one run. Run it with "make bench"; "go run ./test/bench -help" explains it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// settings are the flags.
type settings struct {
	clusters, releases, workers, rounds int
	output, profile                     string
}

func main() {
	s := settings{}
	quick := os.Getenv("BENCH") == "quick"
	pick := func(full, small int) int {
		if quick {
			return small
		}
		return full
	}
	flag.IntVar(&s.clusters, "clusters", pick(6, 3), "workload clusters, each an etcd and an API server on this machine (BENCH=quick: 3)")
	flag.IntVar(&s.releases, "releases", pick(5, 4), "releases in each cluster, each of its own chart (BENCH=quick: 4)")
	flag.IntVar(&s.workers, "workers", 10, "workers of both contestants")
	flag.IntVar(&s.rounds, "rounds", pick(4, 2), "rounds; who goes first alternates (BENCH=quick: 2)")
	flag.StringVar(&s.output, "o", "", "file for the figures as JSON")
	flag.StringVar(&s.profile, "profile", "", "folder for CPU profiles, one per contestant and phase of the last round")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	result, err := run(ctx, s, os.Stderr)
	stop()
	if err == nil {
		err = publish(result, s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// publish prints the figures, and fails if a target was missed.
func publish(result *report, s settings) error {
	if err := result.print(os.Stdout); err != nil {
		return err
	}
	if s.output != "" {
		if err := result.write(s.output); err != nil {
			return err
		}
	}
	var errs []error
	for _, missed := range result.missed() {
		errs = append(errs, errors.New(missed))
	}
	return errors.Join(errs...)
}

// benchRelease is one release that a contestant looks after.
type benchRelease struct {
	cluster         int
	name, namespace string
	chart           *benchChart
	values          map[string]any
}

// contestant is one way to look after releases.
type contestant interface {
	name() string
	install(r benchRelease) error
	upgrade(r benchRelease) error
	check(r benchRelease) error
	uninstall(r benchRelease) error
}

// phases are what is measured, in this order.
var phases = []struct {
	name     string
	logLevel string
	do       func(contestant, benchRelease) error
}{
	{"install", "info", contestant.install},
	{"upgrade", "debug", contestant.upgrade},
	{"in sync", "debug", contestant.check},
	{"uninstall", "debug", contestant.uninstall},
}

// run starts the clusters and makes all rounds.
func run(ctx context.Context, s settings, progress io.Writer) (*report, error) {
	dir, err := os.MkdirTemp("", "helmop-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fmt.Fprintf(progress, "starting %d clusters ...\n", s.clusters)
	servers, err := startServers(ctx, dir, s.clusters, progress)
	defer func() {
		for _, server := range servers {
			if err := server.Stop(context.WithoutCancel(ctx)); err != nil {
				fmt.Fprintln(progress, "stopping a cluster:", err)
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	b := &bench{settings: s, progress: progress, meter: &meter{calls: map[string]int{}}, report: &report{
		Clusters: s.clusters, Releases: s.releases, Workers: s.workers, Rounds: s.rounds,
	}}
	for i := range s.releases {
		chrt, err := newChart(fmt.Sprintf("addon-%d", i), uint64(i+1))
		if err != nil {
			return nil, err
		}
		b.charts = append(b.charts, chrt)
		b.report.Archive = len(chrt.packed)
	}
	for _, phase := range phases {
		b.report.Phases = append(b.report.Phases, phaseReport{Phase: phase.name})
	}
	for _, server := range servers {
		b.configs = append(b.configs, server.RESTConfig())
	}
	for round := range s.rounds {
		if err := b.round(ctx, round); err != nil {
			return nil, err
		}
	}
	b.report.finish()
	return b.report, nil
}

func startServers(ctx context.Context, dir string, n int, progress io.Writer) ([]*apiserver.Server, error) {
	set, err := binaries.Ensure(ctx, binaries.Options{Progress: progress})
	if err != nil {
		return nil, err
	}
	var servers []*apiserver.Server
	for i := range n {
		name := fmt.Sprintf("bench-%d", i)
		server, err := apiserver.Start(ctx, apiserver.Options{Name: name, Dir: filepath.Join(dir, name), Binaries: set})
		if err != nil {
			return servers, err
		}
		servers = append(servers, server)
	}
	return servers, nil
}

// bench makes rounds.
type bench struct {
	settings
	progress io.Writer
	meter    *meter
	charts   []*benchChart
	configs  []*rest.Config
	report   *report
}

// measuredConfigs returns configs whose requests are counted, with the same limits of rate for all.
func (b *bench) measuredConfigs() []*rest.Config {
	var configs []*rest.Config
	for _, config := range b.configs {
		copied := rest.CopyConfig(config)
		copied.WrapTransport = b.meter.wrap
		copied.QPS, copied.Burst = 50, 100
		configs = append(configs, copied)
	}
	return configs
}

// round has both contestants do everything once; the other one begins each time.
func (b *bench) round(ctx context.Context, round int) error {
	first, err := newPlain(b.measuredConfigs())
	if err != nil {
		return err
	}
	second, err := newEngine(b.measuredConfigs())
	if err != nil {
		return err
	}
	order := []contestant{first, second}
	if round%2 == 1 {
		order = []contestant{second, first}
	}
	for _, who := range order {
		for i, phase := range phases {
			if err := ctx.Err(); err != nil {
				return err
			}
			releases := b.releasesOf(who, round, phase.logLevel)
			stopProfile, err := b.startProfile(who, phase.name, round)
			if err != nil {
				return err
			}
			measured, err := b.meter.measure(len(releases), func() error {
				return each(releases, b.workers, func(r benchRelease) error { return phase.do(who, r) })
			})
			if err := errors.Join(err, stopProfile()); err != nil {
				return fmt.Errorf("%s, %s: %w", who.name(), phase.name, err)
			}
			if who == contestant(first) {
				b.report.Phases[i].Plain.add(measured)
			} else {
				b.report.Phases[i].Engine.add(measured)
			}
			n := float64(measured.Releases)
			fmt.Fprintf(b.progress, "round %d of %d, %s, %s: %.1f ms of CPU and %.1f requests per release\n", round+1, b.rounds,
				who.name(), phase.name, float64(measured.CPU.Microseconds())/1000/n, float64(measured.Requests)/n)
		}
	}
	return nil
}

func (b *bench) startProfile(who contestant, phase string, round int) (stop func() error, err error) {
	if b.profile == "" || round != b.rounds-1 {
		return func() error { return nil }, nil
	}
	file, err := os.Create(filepath.Join(b.profile, who.name()+"-"+phase+".pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// releasesOf returns all releases of a contestant in a round, in namespaces of their own; cluster by cluster, as they
// would come from a queue.
func (b *bench) releasesOf(who contestant, round int, logLevel string) []benchRelease {
	var releases []benchRelease
	for _, chrt := range b.charts {
		for cluster := range b.configs {
			releases = append(releases, benchRelease{
				cluster: cluster, name: chrt.name, namespace: fmt.Sprintf("%s-%d-%s", who.name(), round, chrt.name), chart: chrt,
				values: map[string]any{"logLevel": logLevel, "cluster": fmt.Sprintf("cluster-%d", cluster)},
			})
		}
	}
	return releases
}

// each calls do for all releases, by some workers, and returns what failed.
func each(releases []benchRelease, workers int, do func(benchRelease) error) error {
	queue := make(chan benchRelease)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for r := range queue {
				if err := do(r); err != nil {
					errs[i] = errors.Join(errs[i], fmt.Errorf("%s in cluster %d: %w", r.name, r.cluster, err))
				}
			}
		})
	}
	for _, r := range releases {
		queue <- r
	}
	close(queue)
	group.Wait()
	return errors.Join(errs...)
}
