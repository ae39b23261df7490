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

// Command fleet measures what HelmOp makes of a fleet, on real API servers that many Clusters share:
//
//   - hanging: how long the Clusters that are well take, beside others whose API servers accept connections and never
//     answer, compared with the same without the others. First installed, then upgraded after the others began to hang.
//   - status: how often the status of a HelmOp is written while the releases of very many Clusters turn ready.
//
// Run it with "go run ./test/bench/fleet -scenario hanging"; -help explains the rest.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// settings are the flags.
type settings struct {
	scenario                        string
	healthy, hanging, hosts, rounds int
	maxRatio                        float64
	maxWrites                       int
	manager                         string
	keep                            bool
}

func main() {
	s := settings{}
	flag.StringVar(&s.scenario, "scenario", "hanging", "what to measure: hanging or status")
	flag.IntVar(&s.healthy, "clusters", 0, "Clusters that are well (default 20 for hanging, 1000 for status)")
	flag.IntVar(&s.hanging, "hanging", 12, "Clusters that hang, in the scenario hanging")
	flag.IntVar(&s.hosts, "hosts", 2, "API servers that the Clusters of a namespace share")
	flag.IntVar(&s.rounds, "rounds", 5, "rounds of the scenario hanging; the medians count")
	flag.Float64Var(&s.maxRatio, "max-ratio", 1.15, "target of the scenario hanging")
	flag.IntVar(&s.maxWrites, "max-writes", 50, "target of the scenario status")
	flag.StringVar(&s.manager, "manager", "", "manager to measure; default: it is built")
	flag.BoolVar(&s.keep, "keep", false, "keep logs")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called.
	}
}

func run(ctx context.Context, s settings) (err error) {
	scenarios := map[string]struct {
		clusters int
		run      func(context.Context, *bench) error
	}{"hanging": {20, hanging}, "status": {1000, status}}
	scenario, ok := scenarios[s.scenario]
	if !ok {
		return fmt.Errorf("there is no scenario %q", s.scenario)
	}
	if s.healthy == 0 {
		s.healthy = scenario.clusters
	}
	dir, err := os.MkdirTemp("", "helmop-fleet-")
	if err != nil {
		return err
	}
	if s.keep {
		fmt.Fprintln(os.Stderr, "logs are in", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	env, err := environment.Start(ctx, environment.Options{
		Dir: filepath.Join(dir, "env"), NoManager: true, ManagerBinary: s.manager,
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step, "...") },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop(context.WithoutCancel(ctx))) }()
	return scenario.run(ctx, &bench{settings: s, env: env, began: time.Now()})
}
