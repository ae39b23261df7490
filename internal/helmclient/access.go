// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

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

// Access returns the access to a cluster. It sends no request. The error is an [*helmerr.Error].
func (c *Client) Access(target model.Target) (*Access, error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	return &Access{
		Config:   conn.RestConfig(context.Background()),
		Mapper:   conn.Kinds.Mapper(),
		Identity: hex.EncodeToString(conn.Identity[:]) + target.Impersonate,
		Owner:    conn.Owner,
	}, nil
}
