// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
)

// contestant is one way to manage releases.
type contestant interface {
	install(r release) error
	upgrade(r release) error
	check(r release) error
	uninstall(r release) error
}

// release is one release in one cluster.
type release struct {
	cluster         int
	name, namespace string
	chart           *chart
	values          map[string]any
}

// chart is packed for the engine, and parsed for the plain loop.
type chart struct {
	charts.Chart
	digest string
	parsed parsedChart
}

// Serve is the main function of a contestant. It reads a Spec, then Orders, and writes an Outcome for each Order, until
// the input ends.
func Serve(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	s := &server{}
	if err := decoder.Decode(&s.spec); err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	for {
		var order Order
		if err := decoder.Decode(&order); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		outcome, err := s.carryOut(order)
		if err != nil {
			outcome.Error = err.Error()
		}
		if err := encoder.Encode(outcome); err != nil {
			return err
		}
	}
}

type server struct {
	spec     Spec
	versions [][]*chart
	who      contestant
}

func (s *server) prepare() error {
	var configs []*rest.Config
	for _, cluster := range s.spec.Clusters {
		config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig)
		if err != nil {
			return err
		}
		// HelmOp uses the same limits.
		config.UserAgent, config.QPS, config.Burst = UserAgent, 200, 400
		configs = append(configs, config)
	}
	for i, version := range s.spec.Versions {
		var all []*chart
		for j, c := range version {
			parsed, err := parse(c.Archive)
			if err != nil {
				return err
			}
			all = append(all, &chart{Chart: c, digest: fmt.Sprintf("sha256:%064x", 1000*i+j+1), parsed: parsed})
		}
		s.versions = append(s.versions, all)
	}
	var err error
	switch s.spec.Kind {
	case Plain:
		s.who, err = newPlain(configs)
	case Engine:
		s.who = newEngine(configs)
	default:
		err = fmt.Errorf("there is no contestant %q", s.spec.Kind)
	}
	return err
}

func (s *server) carryOut(order Order) (Outcome, error) {
	do, ok := map[string]func(release) error{
		Install: s.who.install, Upgrade: s.who.upgrade, Check: s.who.check, Uninstall: s.who.uninstall,
	}[order.Phase]
	if !ok {
		return Outcome{}, fmt.Errorf("there is no phase %q", order.Phase)
	}
	releases := s.releases(order)
	stop, err := startProfile(order.Profile)
	if err != nil {
		return Outcome{}, err
	}
	// The garbage of earlier phases must not count for this phase.
	runtime.GC()
	cpu, begun := usedCPU(), time.Now()
	err = each(releases, s.spec.Workers, func(r release) error {
		if err := do(r); err != nil {
			return fmt.Errorf("%s of %s in %s: %w", order.Phase, r.name, s.spec.Clusters[r.cluster].Name, err)
		}
		return nil
	})
	outcome := Outcome{Releases: len(releases), Wall: time.Since(begun), CPU: usedCPU() - cpu}
	return outcome, errors.Join(err, stop())
}

// releases returns all releases of an order, chart by chart, so that concurrent actions are in different clusters.
func (s *server) releases(order Order) []release {
	var releases []release
	for _, c := range s.versions[order.Version] {
		for i, cluster := range s.spec.Clusters {
			releases = append(releases, release{
				cluster: i, name: c.Name, namespace: NamespaceOf(s.spec.Namespace, cluster.Name, c.Name), chart: c,
				values: map[string]any{"logLevel": order.LogLevel, "cluster": cluster.Name},
			})
		}
	}
	return releases
}

// each calls do for all releases, by some workers, and returns the errors.
func each(releases []release, workers int, do func(release) error) error {
	queue := make(chan release)
	errs := make([]error, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			for r := range queue {
				if err := do(r); err != nil {
					errs[i] = errors.Join(errs[i], err)
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

func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
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

// usedCPU is the CPU time of this process.
func usedCPU() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0 // It fails for other processes only.
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
