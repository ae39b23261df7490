// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/measure"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// Spent is the cost of a phase for everything that runs.
type Spent struct {
	Wall time.Duration
	// Managers are the usages of the managers in their order, with the processes in which they render charts. Peaks are
	// the largest memory of the managers during the phase, without these processes, in bytes.
	Managers []measure.Usage
	Peaks    []int64
	// Management is the usage of the management API server and of its etcd. Workload is the usage of all workload API
	// servers and of their etcds. Bench is the usage of this process.
	Management, Workload, Bench measure.Usage
	// Traffic and Registry are the requests of all managers.
	Traffic  Traffic
	Registry registry.Counts
}

// Sum returns the usage of all managers.
func (s *Spent) Sum() measure.Usage {
	var total measure.Usage
	for _, used := range s.Managers {
		total = total.Add(used)
	}
	return total
}

// MeasureAll measures everything while do runs: CPU times of the phase, and the memory at its end. The managers must
// run until the end of the phase.
func (w *World) MeasureAll(ctx context.Context, phase string, managers []*Manager, do func() error) (*Spent, error) {
	w.Env.Registry.ResetCounts()
	mark, err := w.Mark()
	if err != nil {
		return nil, err
	}
	before, err := w.usages(managers)
	if err != nil {
		return nil, err
	}
	peaks := make([]*measure.Peak, len(managers))
	profiles := make([]func() error, len(managers))
	for i, manager := range managers {
		peaks[i] = measure.FollowTreesPeak(manager.PID())
		defer peaks[i].Stop()
		profiles[i] = manager.profile(ctx, fmt.Sprintf("%s manager %d", phase, i))
	}
	begun := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	spent, err := w.usages(managers)
	if err != nil {
		return nil, err
	}
	spent.Wall = time.Since(begun)
	for i := range managers {
		spent.Managers[i].CPU -= before.Managers[i].CPU
		spent.Peaks = append(spent.Peaks, peaks[i].Stop())
	}
	spent.Management.CPU -= before.Management.CPU
	spent.Workload.CPU -= before.Workload.CPU
	spent.Bench.CPU -= before.Bench.CPU
	spent.Registry = w.Env.Registry.Counts()
	spent.Traffic, err = w.Traffic(mark)
	errs := []error{err}
	for _, profiled := range profiles {
		errs = append(errs, profiled())
	}
	return spent, errors.Join(errs...)
}

// usages returns what everything has used since its start.
func (w *World) usages(managers []*Manager) (*Spent, error) {
	spent := &Spent{Managers: make([]measure.Usage, len(managers))}
	var errs []error
	for i, manager := range managers {
		used, err := measure.Trees(manager.PID())
		spent.Managers[i], errs = used, append(errs, err)
	}
	var err error
	spent.Management, err = usageOf(w.Env.Management.Server)
	errs = append(errs, err)
	spent.Workload, err = usageOf(w.Servers...)
	errs = append(errs, err)
	// Everything else is a child of this process.
	spent.Bench.CPU, err = measure.CPU(os.Getpid())
	errs = append(errs, err)
	spent.Bench.Memory, err = measure.Memory(os.Getpid())
	return spent, errors.Join(append(errs, err)...)
}

func usageOf(servers ...*apiserver.Server) (measure.Usage, error) {
	var pids []int
	for _, server := range servers {
		pids = append(pids, server.PIDs()...)
	}
	return measure.Trees(pids...)
}

// Each calls do for all managers at once, and returns the errors.
func Each(managers []*Manager, do func(i int, manager *Manager) error) error {
	return parallel(len(managers), len(managers), func(i int) error { return do(i, managers[i]) })
}
