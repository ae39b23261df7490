// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"encoding/hex"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Access returns the access to a cluster. It sends no request. The error is an [*helmerr.Error].
func (c *Client) Access(target model.Target) (*model.Access, error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	return &model.Access{
		Config:   conn.RestConfig(context.Background()),
		Mapper:   conn.Kinds.Mapper(),
		Identity: hex.EncodeToString(conn.Identity[:]) + target.Impersonate,
		Owner:    conn.Owner,
	}, nil
}
