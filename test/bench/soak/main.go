// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak runs a manager with a fleet that changes all the time: Clusters are created and deleted, values change,
// API servers restart and hang. It samples the memory and the goroutines of the manager. At the end it reports whether
// all objects are in the desired state and whether the manager has grown.
//
// Run it with "go run ./test/bench/soak". The flag -help explains the flags. It exits with 1 if an object is not in the
// desired state, and with 2 if the manager has grown.
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
		"how often all releases change before the first rest, to fill the histories")
	flag.DurationVar(&s.duration, "duration", 30*time.Minute, "duration of the changes")
	flag.DurationVar(&s.beat, "beat", 10*time.Second, "time between two changes")
	flag.DurationVar(&s.sample, "sample", 15*time.Second, "time between two measurements of the manager")
	flag.DurationVar(&s.rest, "rest", 2*time.Minute,
		"time without changes before the first and the last samples of a manager at rest")
	flag.Float64Var(&s.growth, "max-growth", 0.1,
		"share by which memory and goroutines may grow from the first rest to the last")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the random changes")
	flag.StringVar(&s.binary, "manager", "", "path of the manager to measure; default: build it")
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
		// Several sync periods fit into the shortest run.
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
		// The log of a manager that ended contains the cause, and is not kept.
		err = errors.Join(err, manager.Unexpected())
	}
	return err
}
