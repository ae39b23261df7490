// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contestant looks after Helm releases without HelmOp's manager, for comparison: a plain loop over the Helm
// SDK, and HelmOp's release engine alone. A contestant is a process of its own, so that what it costs can be told from
// all else; [Serve] is its main function, [Start] starts it.
package contestant

import (
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
)

// The kinds of contestants.
const (
	// Plain is a loop over the Helm SDK as one writes it: the chart is parsed once, each cluster has one getter of clients
	// with cached discovery, each action a configuration of its own.
	Plain = "plain"
	// Engine is HelmOp's release engine, called as the controller calls it.
	Engine = "engine"
)

// UserAgent is that of all contestants, for audit logs.
const UserAgent = "helmop-bench-contestant"

// Spec is what a contestant looks after: each chart in each cluster.
type Spec struct {
	// Kind is Plain or Engine.
	Kind string
	// Workers is how many releases are worked on at once.
	Workers  int
	Clusters []Cluster
	// Versions are the versions of the charts, each with all charts in the same order. Releases are named like their
	// charts.
	Versions [][]charts.Chart
	// Namespace is that of releases, see NamespaceOf.
	Namespace string
}

// Cluster is how to reach a workload cluster.
type Cluster struct {
	Name       string
	Kubeconfig []byte
}

// NamespaceOf is the namespace of a chart's release in a cluster: {cluster} and {chart} in the pattern stand for them.
func NamespaceOf(pattern, cluster, chart string) string {
	return strings.NewReplacer("{cluster}", cluster, "{chart}", chart).Replace(pattern)
}

// The phases of an Order.
const (
	Install   = "install"
	Upgrade   = "upgrade"
	Check     = "check"
	Uninstall = "uninstall"
)

// Order is what to do with all releases.
type Order struct {
	// Phase is Install, Upgrade, Check or Uninstall.
	Phase string
	// Version of the charts, an index of Spec.Versions.
	Version int
	// LogLevel is a value that changes some objects.
	LogLevel string
	// Profile is the file for a CPU profile. Default: none.
	Profile string
}

// Outcome is what an Order took.
type Outcome struct {
	Releases  int
	Wall, CPU time.Duration
	// Error is what failed.
	Error string
}
