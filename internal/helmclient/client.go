// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/knownobjects"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// maxVersionBytes is the default maximum size of all cached versions of objects. It is enough for about 8,000 releases
// with 10 objects each.
const maxVersionBytes = 16 << 20

// Memory bounds the memory of a Client.
type Memory struct {
	connections.Memory
	// Manifests is the size of the cache for manifests of releases, Versions of the cache for versions of objects, and
	// CRDs of the cache for parsed CRDs. All are in bytes.
	Manifests, Versions, CRDs int64
}

func init() { kube.ManagedFieldsManager = model.FieldManager }

// Client observes releases and acts on releases, in any number of clusters. The methods of [dryrun.Engine] change
// nothing. Client is safe for concurrent use. If two actions run on one release at the same time, the second action
// fails with [helmerr.ErrStale].
type Client struct {
	*dryrun.Engine
	connections *connections.Pool
	manifests   *manifests.Cache
	versions    *knownobjects.Cache
	now         func() time.Time
	running     *runningActions
	renderer    *rendering.Renderer
	// restored is called for a cluster that was restored from a backup; nil to do nothing.
	restored func(cluster string)
	// open opens the session of an action or a dry run. Tests replace it to use another storage and another cluster.
	open session.Opener
}

// New returns a Client. The runner renders charts and must serve the tasks of package rendering. The size of each
// response of a cluster is limited, but the sum of all responses is not.
func New(runner sandbox.Runner) *Client {
	return NewBounded(runner, Memory{Memory: connections.DefaultMemory(), Manifests: manifests.MaxBytes,
		Versions: maxVersionBytes, CRDs: crds.MaxCacheBytes})
}

// NewBounded returns a Client with bounded memory. The part of a [model.Target].Key before the "/" is the tenant of a
// share.
func NewBounded(runner sandbox.Runner, memory Memory) *Client {
	c := &Client{
		connections: connections.NewPool(memory.Memory),
		manifests:   manifests.NewCache(memory.Manifests), versions: knownobjects.NewCache(memory.Versions),
		now: time.Now, running: newRunningActions(), renderer: rendering.NewRenderer(runner),
	}
	c.open = session.NewOpener(c.connections, c.renderer, crds.NewCache(memory.CRDs))
	open := func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer,
	) (*session.Session, error) {
		return c.open(ctx, target, desired, logs)
	}
	c.Engine = dryrun.New(open, c.connections.Shared.Actions, c.Observe, c.renderer)
	return c
}

// OnRestore sets a function that is called when a list of records shows that a cluster was restored from a backup: its
// watches may be silent until the cluster reaches its former resourceVersion. cluster is the Key of the cluster's
// [model.Target]. The Client has then dropped its cached data of the cluster. OnRestore must be called before all other
// methods.
func (c *Client) OnRestore(restored func(cluster string)) { c.restored = restored }

// reached stores the resourceVersion of a list of records, see [connections.NewestVersion.Reach].
func (c *Client) reached(target model.Target, conn *connections.Connection, version, before string) {
	if conn.Newest.Reach(version, before) {
		return
	}
	c.Forget(target.Key)
	if c.restored != nil {
		c.restored(target.Key)
	}
}

// MayBeNew reports whether the first installation of a release may assume that the release has no records: then it must
// create the namespace of the release, and the namespace is not known to exist. It sends no request.
func (c *Client) MayBeNew(target model.Target, desired model.Desired, options model.Options) bool {
	conn, err := c.connections.Get(target)
	if err != nil {
		return false
	}
	namespace := &namespacing.Namespacer{Clients: &connections.Getter{Conn: conn},
		Impersonated: target.Impersonate != ""}
	namespace.Prepare(desired, options.Install, true)
	return namespace.MayBeMissing()
}

// Forget drops all cached data of a cluster. key is the Key of the cluster's [model.Target]. Call Forget when the
// Cluster is deleted.
func (c *Client) Forget(key string) {
	c.connections.Forget(key)
	c.manifests.Forget(key)
	c.versions.Forget(key)
}
