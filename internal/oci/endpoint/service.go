// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"net/http"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

// ServiceClient returns a client for hosts that are neither registries nor sites, for example the revocation service of
// a certificate. Its requests have the connections, refused addresses, redirects, limits and retries of requests to
// registries, and no credentials. There is no memory budget: the caller must bound the bodies. The error is
// ErrInvalidAccess.
func (c *Endpoints) ServiceClient() (*http.Client, error) {
	access := credentials.Access{}
	connections, _, err := c.transportsFor(access, false)
	if err != nil {
		return nil, accessError("read certificates for", "requests to services", err)
	}
	// There is no Host, so no host gets the rights of a registry. There is no Name, so tenants do not choose the labels of
	// metrics.
	return c.pool.Client(transport.Target{
		Connections: connections, Way: fingerprint(access.Proxy.ID()...),
		User:   fingerprint(credentials.ID(auth.EmptyCredential)...),
		KindOf: func(*http.Request) string { return transport.RequestService },
	}), nil
}
