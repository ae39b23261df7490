// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak runs a manager beside a fleet in which something happens all the time: Clusters come and go, values
// change, API servers restart and hang. It samples the memory and the goroutines of the manager, and tells at the end
// whether everything is as it is wanted and whether the manager has grown.
//
// Run it with "go run ./test/bench/soak"; -help explains the rest. It exits with 1 if something has not become as it is
// wanted, and with 2 if the manager has grown.
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

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
)

// settings are the flags.
type settings struct {
	clusters, hosts, history     int
	duration, beat, sample, rest time.Duration
	growth                       float64
	seed                         uint64
	binary, profiles             string
	keep                         bool
}

var errGrown = errors.New("the manager has grown")

func main() {
	s := settings{}
	flag.IntVar(&s.clusters, "clusters", 200, "Clusters")
	flag.IntVar(&s.hosts, "hosts", 4, "API servers that the Clusters share")
	flag.IntVar(&s.history, "history", 11,
		"how often all releases change before the first rest: histories are full then, and grow no more")
	flag.DurationVar(&s.duration, "duration", 30*time.Minute, "how long something happens")
	flag.DurationVar(&s.beat, "beat", 10*time.Second, "how often something happens")
	flag.DurationVar(&s.sample, "sample", 15*time.Second, "how often the manager is measured")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute,
		"how long nothing happens before the first and the last samples of a manager at rest")
	flag.Float64Var(&s.growth, "max-growth", 0.1,
		"by what share memory and goroutines may grow from the first rest to the last")
	flag.Uint64Var(&s.seed, "seed", 1, "what happens is a function of it")
	flag.StringVar(&s.binary, "manager", "", "manager to measure; default: it is built")
	flag.StringVar(&s.profiles, "profiles", "",
		"folder for heap and goroutine profiles of the manager at its first and its last rest, and in the middle")
	flag.BoolVar(&s.keep, "keep", false, "keep logs")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, s)
	stop()
	switch {
	case errors.Is(err, errGrown):
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "helmop-soak-")
	if err != nil {
		return err
	}
	if s.keep {
		fmt.Fprintln(os.Stderr, "logs are in", dir)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	env, err := environment.Start(ctx, environment.Options{
		Dir: filepath.Join(dir, "env"), ManagerBinary: s.binary,
		// It comes several times within the shortest run.
		SyncPeriod: 2 * time.Minute,
		Progress:   func(step string) { fmt.Fprintln(os.Stderr, step, "...") },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop(context.WithoutCancel(ctx))) }()
	token, err := world.DiagnosticsToken(ctx, env.Client)
	if err != nil {
		return err
	}
	managers := env.Managers()
	manager := managers[len(managers)-1]
	err = newSoak(s, env, measure.NewDiagnostics(manager.DiagnosticsAddress, token)).run(ctx)
	if err != nil {
		// A manager that ended says why in its log, which is not kept.
		err = errors.Join(err, manager.Unexpected())
	}
	return err
}
