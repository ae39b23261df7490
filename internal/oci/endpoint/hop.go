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

// hop is a route with its connections and its credential.
type hop struct {
	routes.Route
	endpoints *Endpoints
	source    *credentials.Source
	// transports are the connections of the route. transportKey identifies them.
	transports   *transport.Connections
	transportKey string
	// way identifies the way to the host: a hash of the proxy, see transport.Target.
	way string
}

// scoped returns a context with the scope of the token for the host.
func (h *hop) scoped(ctx context.Context) context.Context {
	return auth.WithScopesForHost(ctx, h.Ref.Host(), auth.ScopeRepository(h.Ref.Repository, auth.ActionPull))
}

// do sends a request to this hop. If the registry refuses a cached credential of a cloud provider, do repeats the
// request with a new credential.
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
			// After a cancellation, HTTP/2 may return data with which the server ended the request. This data is not
			// always a response.
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
