// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"time"

	"helm.sh/helm/v3/pkg/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

func init() { kube.ManagedFieldsManager = model.FieldManager }

// Client observes and acts on releases in any number of clusters. It is safe for concurrent use. If two actions run on
// one release at the same time, the second one fails with [helmerr.ErrStale].
type Client struct {
	connections *connections.Pool
	manifests   *manifestCache
	now         func() time.Time
	running     *runningActions
	renderer    *rendering.Renderer
	// open begins an action; tests put another storage and another cluster there.
	open func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer) (*session, error)
}

// New returns a Client that renders charts with a runner, which must know the tasks of package rendering. Each response
// of a cluster is bounded, but their sum is not.
func New(runner sandbox.Runner) *Client { return NewBounded(runner, nil) }

// NewBounded is New with a bound for all responses that are being read. The part of a [model.Target].Key before the "/"
// is the owner of the share.
func NewBounded(runner sandbox.Runner, bytes *bytebudget.Budget) *Client {
	c := &Client{
		connections: connections.NewPool(connections.MaxConnections, bytes), manifests: newManifestCache(maxManifestBytes),
		now: time.Now, running: newRunningActions(), renderer: rendering.NewRenderer(runner),
	}
	c.open = c.openSession
	return c
}

// Forget drops everything that is cached about a cluster, identified by the Key of its [model.Target]. Call it when the
// Cluster is deleted.
func (c *Client) Forget(key string) {
	c.connections.Forget(key)
	c.manifests.forget(key)
}
