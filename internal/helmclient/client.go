// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// maxVersionBytes is the maximum size of all cached versions of objects. It is enough for about 8,000 releases with 10
// objects each.
const maxVersionBytes = 16 << 20

func init() { kube.ManagedFieldsManager = model.FieldManager }

// Client observes releases and acts on releases, in any number of clusters. The methods of [dryrun.Engine] change
// nothing. Client is safe for concurrent use. If two actions run on one release at the same time, the second action
// fails with [helmerr.ErrStale].
type Client struct {
	*dryrun.Engine
	connections *connections.Pool
	manifests   *manifests.Cache
	versions    *apply.VersionCache
	now         func() time.Time
	running     *runningActions
	renderer    *rendering.Renderer
	// open opens the session of an action or a dry run. Tests replace it to use another storage and another cluster.
	open session.Opener
}

// New returns a Client. The runner renders charts and must serve the tasks of package rendering. The size of each
// response of a cluster is limited, but the sum of all responses is not.
func New(runner sandbox.Runner) *Client { return NewBounded(runner, nil) }

// NewBounded returns a Client whose responses share the budget bytes while they are read. The part of a
// [model.Target].Key before the "/" is the owner of a share.
func NewBounded(runner sandbox.Runner, bytes *bytebudget.Budget) *Client {
	c := &Client{
		connections: connections.NewPool(connections.MaxConnections, bytes),
		manifests:   manifests.NewCache(manifests.MaxBytes), versions: apply.NewVersionCache(maxVersionBytes),
		now: time.Now, running: newRunningActions(), renderer: rendering.NewRenderer(runner),
	}
	c.open = session.NewOpener(c.connections, c.renderer)
	open := func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer,
	) (*session.Session, error) {
		return c.open(ctx, target, desired, logs)
	}
	c.Engine = dryrun.New(open, c.Observe, c.renderer)
	return c
}

// Forget drops all cached data of a cluster. key is the Key of the cluster's [model.Target]. Call Forget when the
// Cluster is deleted.
func (c *Client) Forget(key string) {
	c.connections.Forget(key)
	c.manifests.Forget(key)
	c.versions.Forget(key)
}
