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
	// Config is how to reach the cluster. It is copied; its timeout and rate limits are replaced.
	// [connections.CheckConfig] rejects configurations that run programs or read files.
	Config *rest.Config
	// Impersonate is the user name for all requests of the action, "system:serviceaccount:<namespace>:<name>" for a
	// service account of the cluster. If it is empty, the user of Config is used. Discovery always uses the user of
	// Config.
	Impersonate string
	// Storage is where the payloads of the release's records are stored. It does not identify the cluster.
	Storage Storage
}

// Desired is the release that should exist. Digests may come with or without "sha256:".
type Desired struct {
	// Name and Namespace identify the release within the cluster.
	Name, Namespace string
	// Owner is the owner of the release as "<namespace>.<name>". No other owner may change the release.
	Owner string
	// UID identifies the object that asks. A pending record with the same UID and Shard was left behind by a
	// predecessor of this process.
	UID string
	// Shard is the shard of the manager, a label value; empty without sharding. A pending record of another shard may have
	// a manager that is still working on it.
	Shard string `json:"-"` // Not part of the identity of an attempt.
	// ManagementCluster identifies the management cluster of the manager. If it is empty, the management cluster is
	// unknown, and releases of any management cluster count as the owner's.
	ManagementCluster string `json:"-"`
	// FormerManagementCluster identifies the management cluster that the caller's object was moved or restored from. The
	// owner's releases of that one count as the owner's, too. Empty if the object was not moved.
	FormerManagementCluster string `json:"-"`
	// ArtifactDigest, ValuesDigest and OptionsDigest identify everything that shapes the release.
	ArtifactDigest, ValuesDigest, OptionsDigest string
	// PostRenderDigest identifies what changes the rendered objects, empty where nothing does.
	PostRenderDigest string
	// Return means that the desired state is an earlier state of the release. HelmOp rolls back if the history has a
	// revision made from it, which needs neither chart nor values, and upgrades otherwise. A return is not the remediation
	// of a failed upgrade and has no remediation itself: if it fails or does not become healthy, it is tried again or
	// stays, but the state that was given up does not come back. It does not shape the release.
	Return bool
}
