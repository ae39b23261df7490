// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// hop is a route with the connections and the credential to use it.
type hop struct {
	routes.Route
	endpoints *Endpoints
	source    *credentials.Source
	// transports are the connections to use; transportKey identifies them.
	transports   *transport.Connections
	transportKey string
	// way identifies the way to the host, see limits.
	way string
}

// scoped returns a context with the scope for the token of the host.
func (h *hop) scoped(ctx context.Context) context.Context {
	return auth.WithScopesForHost(ctx, h.Ref.Host(), auth.ScopeRepository(h.Ref.Repository, auth.ActionPull))
}

// do sends a request to this hop. If the registry refuses a cached credential of a cloud provider,
// do repeats the request once with a new credential.
func (h *hop) do(req *http.Request) (*http.Response, error) {
	for {
		began := time.Now()
		credential, hint, err := h.source.Credential(req.Context())
		exchangeFrom(req.Context()).usesCredential(hint)
		if err != nil {
			return nil, err
		}
		resp, err := h.endpoints.client(h, credential).Do(req)
		if ended := req.Context().Err(); err == nil && ended != nil {
			// HTTP/2 may return what a server sends to end a request that was cancelled. It need not be an answer.
			_ = resp.Body.Close()
			return nil, ended
		}
		if !h.source.Renewable(resp, err, began) {
			return resp, err
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}
