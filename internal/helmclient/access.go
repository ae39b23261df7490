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

// Access is a way to a cluster for requests that do not go through Helm. It shares the connections, the rate limit and
// the known kinds with the actions on the cluster.
type Access struct {
	// Config makes clients. Each of their requests that is no watch has a deadline.
	Config *rest.Config
	// Mapper knows the cluster's kinds, and asks the cluster again for one that it does not know.
	Mapper meta.RESTMapper
	// Identity changes when the address, the credentials or the impersonated user do.
	Identity string
	// Owner is for whom answers are read.
	Owner bytebudget.Owner
}

// Access returns the way to a cluster. It sends no request. The error is an [*Error].
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
