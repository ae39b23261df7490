// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/monitoring"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// renderingOptions are the flags that say what rendering a chart may take.
type renderingOptions struct {
	memory  resource.QuantityValue
	cpu     time.Duration
	timeout time.Duration
}

// minRenderMemory is what the smallest charts need.
const minRenderMemory = 128 << 20

func (o *renderingOptions) addFlags(fs *pflag.FlagSet) {
	o.memory = resource.QuantityValue{Quantity: resource.MustParse("512Mi")}
	fs.Var(&o.memory, "render-memory",
		"Memory that rendering one chart may take. Charts are rendered in child processes, one for each processor and one more at most, and no more than half of the pod's memory has room for.")
	fs.DurationVar(&o.cpu, "render-cpu", 30*time.Second,
		"CPU time that rendering one chart may take, in whole seconds.")
	fs.DurationVar(&o.timeout, "render-timeout", 5*time.Minute,
		"How long rendering one chart may take. The timeout of the Helm action counts as well.")
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

// pool returns what renders charts, by so many processes for one tenant at a time, 0 for one for each processor.
func (o *renderingOptions) pool(children int) *sandbox.Pool {
	return sandbox.NewPool(sandbox.Options{
		Children: children,
		Limits:   sandbox.Limits{Memory: o.memory.Value(), CPU: o.cpu, Time: o.timeout},
		Started:  monitoring.RendererStarted,
		Ended:    func(limit sandbox.Limit) { monitoring.RendererEnded(string(limit)) },
	})
}
