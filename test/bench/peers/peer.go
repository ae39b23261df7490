// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/world"
)

// Fleet is what a tool manages: a release of each chart in each Cluster.
type Fleet struct {
	World *world.World
	// Root is the repository's root folder, and Dir the work folder of the programs.
	Root, Dir string
	// Name is the name of the tool. It is the namespace of the Clusters, and the value of their label world.GroupLabel.
	Name     string
	Clusters []world.Cluster
	Charts   []charts.Chart
	// Workers is the number of concurrent actions of the plain loop.
	Workers int
	// Concurrency is the number of releases that each other tool reconciles at once. Default: the default of the tool.
	Concurrency int
}

// Namespace returns the namespace of the releases of a chart in all Clusters.
func (f *Fleet) Namespace(chart string) string { return f.prefix() + chart }

// prefix is the beginning of the names of all namespaces of releases.
func (f *Fleet) prefix() string { return f.Name + "-" }

// concurrency returns flags that set the concurrency of a program.
func (f *Fleet) concurrency(flags ...string) []string {
	var args []string
	for _, flag := range flags {
		if f.Concurrency > 0 {
			args = append(args, fmt.Sprintf("%s=%d", flag, f.Concurrency))
		}
	}
	return args
}

// Peer is a tool. Its methods must be called in their order, Stop at any time.
type Peer interface {
	// Start starts the programs of the tool, and returns when they are ready. It builds those of other projects.
	Start(ctx context.Context) error
	// PIDs are the ids of the processes.
	PIDs() []int
	// Versions describes the programs.
	Versions() string
	// User is the user of the tool at the management cluster. It is empty if the tool sends no requests.
	User() string
	// Install lets the tool install all releases with the value InstalledLevel.
	Install(ctx context.Context) error
	// Upgrade lets the tool upgrade all releases to the value UpgradedLevel.
	Upgrade(ctx context.Context) error
	// Uninstall lets the tool uninstall all releases.
	Uninstall(ctx context.Context) error
	// Explain returns the status of the last object of the tool, to find out why it does not finish.
	Explain(ctx context.Context) string
	// Stop stops the programs.
	Stop(ctx context.Context) error
}

// Values logLevel of the releases.
const (
	InstalledLevel = "info"
	UpgradedLevel  = "debug"
)

// makers create the tools.
var makers = map[string]func(Fleet) Peer{
	HelmOp: newHelmOp, Plain: newPlain, CAAPH: newCAAPH, Flux: newFlux, Sveltos: newSveltos,
}

// Names of the tools.
const (
	HelmOp  = "helmop"
	Plain   = "plain"
	CAAPH   = "caaph"
	Flux    = "flux"
	Sveltos = "sveltos"
)

// Titles are the names of the tools for readers.
var Titles = map[string]string{HelmOp: "HelmOp", Plain: "plain loop", CAAPH: "CAAPH", Flux: "Flux", Sveltos: "Sveltos"}

// New returns the tool of a fleet, by its name.
func New(f Fleet) (Peer, error) {
	create, ok := makers[f.Name]
	if !ok {
		return nil, fmt.Errorf("there is no tool %q: the tools are %s", f.Name,
			strings.Join(slices.Sorted(maps.Keys(makers)), ", "))
	}
	return create(f), nil
}
