// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contestant manages Helm releases without HelmOp's manager, for comparison: by a plain loop over the Helm SDK,
// or by HelmOp's release engine alone. A contestant is a separate process, so that its cost can be measured separately.
// [Serve] is its main function, [Start] starts it.
package contestant

import (
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
)

// The kinds of contestants.
const (
	// Plain is a simple loop over the Helm SDK. The chart is parsed once, each cluster has one getter of clients with
	// cached discovery, and each action has its own configuration.
	Plain = "plain"
	// Engine is HelmOp's release engine, called as by the controller.
	Engine = "engine"
)

// UserAgent is the user agent of all contestants, for audit logs.
const UserAgent = "helmop-bench-contestant"

// Spec lists the releases of a contestant: each chart in each cluster.
type Spec struct {
	// Kind is Plain or Engine.
	Kind string
	// Workers is the number of concurrent actions.
	Workers  int
	Clusters []Cluster
	// Versions are the versions of the charts. Each has all charts in the same order. A release has the name of its chart.
	Versions [][]charts.Chart
	// Namespace is the pattern for the namespaces of releases, see NamespaceOf.
	Namespace string
}

// Cluster is the access to a workload cluster.
type Cluster struct {
	Name       string
	Kubeconfig []byte
}

// NamespaceOf returns the namespace of a chart's release in a cluster. It replaces {cluster} and {chart} in the
// pattern.
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

// Order is an action for all releases.
type Order struct {
	// Phase is Install, Upgrade, Check or Uninstall.
	Phase string
	// Version is the version of the charts, an index of Spec.Versions.
	Version int
	// LogLevel is a value that changes some objects.
	LogLevel string
	// Profile is the file for a CPU profile. Default: none.
	Profile string
}

// Outcome is the cost of an Order.
type Outcome struct {
	Releases  int
	Wall, CPU time.Duration
	// Error is the error message of a failed Order.
	Error string
}
