// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
)

// Target is a cluster in which to act.
type Target struct {
	// Key identifies the cluster in caches: the same key must always mean the same cluster.
	Key string
	// Config has the address and the credentials of the cluster. It is copied; its timeout and rate limits are replaced.
	// [connections.CheckConfig] rejects configurations that run programs or read files.
	Config *rest.Config
	// Impersonate is the user name for all requests of the action, "system:serviceaccount:<namespace>:<name>" for a
	// service account of the cluster. If it is empty, the user of Config is used. Discovery always uses the user of
	// Config.
	Impersonate string
	// Storage is where the payloads of the release's records are stored. Storage is not part of the identity of the
	// cluster.
	Storage Storage
	// AnyKinds makes an action begin with kinds of the cluster that may have been discovered long ago. AnyKinds is not
	// part of the identity of the cluster.
	AnyKinds bool
}

// Access gives access to a cluster for requests outside of Helm. These requests share the connections, the rate limit
// and the discovered kinds with the actions on the cluster.
type Access struct {
	// Config is the configuration for clients. Each request of such a client has a deadline, except watches.
	Config *rest.Config
	// Mapper maps the kinds that the cluster serves. For an unknown kind, it runs discovery again.
	Mapper meta.RESTMapper
	// Identity identifies the address, the credentials and the impersonated user of the access. It changes when one of
	// these changes.
	Identity string
	// Owner is the owner of the memory for responses of the cluster.
	Owner bytebudget.Owner
}

// Desired is the desired state of a release. Digests may have the prefix "sha256:".
type Desired struct {
	// Name and Namespace identify the release within the cluster.
	Name, Namespace string
	// Owner is the owner of the release as "<namespace>.<name>". No other owner may change the release.
	Owner string
	// UID is the UID of the object that requests the release. A pending record with the same UID and Shard was left by an
	// earlier process of this manager.
	UID string
	// Shard is the shard of the manager, a label value; empty without sharding. The manager of another shard may still be
	// working on a pending record of its shard.
	Shard string `json:"-"` // Not part of the identity of an attempt.
	// ManagementCluster identifies the management cluster of the manager. If it is empty, the management cluster is
	// unknown. Releases of the owner in any management cluster then count as the owner's releases.
	ManagementCluster string `json:"-"`
	// FormerManagementClusters identify the management clusters from which the caller's object was moved or restored;
	// empty if the object was not moved. The owner's releases of the former management clusters count as the owner's
	// releases too.
	FormerManagementClusters []string `json:"-"`
	// ClusterRecreatedAt is since when the object that represents the cluster is another one; zero if it is the same. A
	// record that is older shows that the release was installed in the same cluster, for the former object.
	ClusterRecreatedAt time.Time `json:"-"`
	// ArtifactDigest, ValuesDigest and OptionsDigest identify everything that affects the release, except PostRender.
	ArtifactDigest, ValuesDigest, OptionsDigest string
	// PostRenderDigest identifies the post-rendering; empty without post-rendering.
	PostRenderDigest string
	// Return means that the desired state is an earlier state of the release. If the history has a revision made from this
	// state, HelmOp rolls back to it. The rollback needs no chart and no values. Otherwise HelmOp upgrades. A return is
	// not the remediation of a failed upgrade, and is not remediated itself. A failed return is tried again. A return
	// whose revision does not become healthy stays. The abandoned state is not restored. Return does not affect the
	// release.
	Return bool
}
