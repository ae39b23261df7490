// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"k8s.io/client-go/rest"
)

// Target is a cluster to act on.
type Target struct {
	// Key identifies the cluster in caches: the same key must always mean the same cluster.
	Key string
	// Config says how to reach the cluster. It is copied; its timeout and rate limits are replaced. See [connections.CheckConfig]
	// for what it must not hold.
	Config *rest.Config
	// Impersonate is the user name that everything is done as, "system:serviceaccount:<namespace>:<name>" for a service
	// account of the cluster. Empty means that of Config. What the cluster serves is asked for as that of Config.
	Impersonate string
	// Storage is where the payloads of the release's records are kept. It is no part of what the cluster is identified by.
	Storage Storage
}

// Desired is the release that should exist. Digests may come with or without "sha256:".
type Desired struct {
	// Name and Namespace identify the release within the cluster.
	Name, Namespace string
	// Owner is the key "<namespace>.<name>" of whoever owns the release. No other owner may change it.
	Owner string
	// UID identifies the object that asks. A pending record with the same UID and Shard was left behind by a
	// predecessor of this process.
	UID string
	// Shard is that of the process that asks, a label value; empty where the work is not divided. A pending record that a process of
	// another shard left behind has a holder that may be at work.
	Shard string `json:"-"` // No part of what a try is identified by.
	// ManagementCluster identifies the management cluster of the process that asks; empty where it is not known, and a release of any
	// management cluster then counts as the owner's.
	ManagementCluster string `json:"-"`
	// FormerManagementCluster identifies the management cluster that the object that asks was moved or restored from. The owner's
	// releases of that one count as the owner's, too. Empty where the object was not moved.
	FormerManagementCluster string `json:"-"`
	// ArtifactDigest, ValuesDigest and OptionsDigest identify all that shapes the release.
	ArtifactDigest, ValuesDigest, OptionsDigest string
	// PostRenderDigest identifies what changes the rendered objects, empty where nothing does.
	PostRenderDigest string
	// Return says that what is desired is what the release had before: it is returned to by Helm's own history, as far as that has
	// a revision made from it, and by an upgrade otherwise. A return by the history needs neither chart nor values. It is not
	// the remediation of a failed upgrade and has none itself: where it fails, or does not become healthy, it is tried again or
	// left as it is, but what was given up does not come back. It shapes nothing.
	Return bool
}
