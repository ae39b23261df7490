// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// renderingOptions are the flags that limit the rendering of charts.
type renderingOptions struct {
	memory  resource.QuantityValue
	cpu     time.Duration
	timeout time.Duration
}

// minRenderMemory is the memory that the smallest charts need, in bytes.
const minRenderMemory = 128 << 20

// outputCopies is the number of copies of the output of a render process in memory: as received, and decoded.
const outputCopies = 2

func (o *renderingOptions) addFlags(fs *pflag.FlagSet) {
	o.memory = resource.QuantityValue{Quantity: resource.MustParse("512Mi")}
	fs.Var(&o.memory, "render-memory",
		"Memory limit for rendering one chart. Charts are rendered in child processes: "+
			"at most one for each processor plus one, and no more than fit into half of the pod's memory.")
	fs.DurationVar(&o.cpu, "render-cpu", 30*time.Second,
		"CPU time limit for rendering one chart, in whole seconds.")
	fs.DurationVar(&o.timeout, "render-timeout", 5*time.Minute,
		"Time limit for rendering one chart. The timeout of the Helm action applies as well.")
}

func (o *renderingOptions) validate() error {
	switch {
	case o.memory.Value() < minRenderMemory:
		return errors.New("--render-memory must be at least 128Mi")
	case o.cpu < time.Second || o.timeout < time.Second:
		return errors.New("--render-cpu and --render-timeout must be at least 1s")
	}
	return nil
}

// pool returns the pool of render processes. children is the number of processes for one tenant. 0 means one for each
// processor. The manager reserves memory for the output of the processes in the budget.
func (o *renderingOptions) pool(children int, budget *bytebudget.Budget) *sandbox.Pool {
	return sandbox.NewPool(sandbox.Options{
		Children: children,
		Limits:   sandbox.Limits{Memory: o.memory.Value(), CPU: o.cpu, Time: o.timeout},
		Started:  monitoring.RendererStarted,
		Ended:    monitoring.RendererEnded,
		Reserve: func(ctx context.Context, tenant string, size int64) (release func(), err error) {
			lease, err := budget.Acquire(ctx, bytebudget.Owner{Tenant: tenant}, size*outputCopies)
			return lease.ReleaseSoon, err
		},
	})
}
