// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// Endpoint is a repository with the hosts that serve it: its mirrors and the registry.
type Endpoint struct {
	// URL is the URL of the repository.
	URL string
	// Key identifies an endpoint. It is a hash of the repository, the credentials, the certificates, the proxy, the
	// protocol and the mirrors.
	Key string

	ref      registry.Reference
	insecure bool
	hops     []*hop
}

// Endpoint returns the endpoint of a repository. It sends no request. Errors are ErrInvalidReference, ErrInvalidAccess,
// and ErrUnauthorized for a registry that the operator has blocked.
func (c *Endpoints) Endpoint(url string, access credentials.Access) (*Endpoint, error) {
	ref, err := routes.ParseURL(url)
	if err != nil {
		return nil, err
	}
	registries, err := c.registries.get()
	if err != nil {
		return nil, accessError("find mirrors of", url, err)
	}
	hosts, err := registries.Routes(ref, access.Insecure)
	if err != nil {
		return nil, accessError("find mirrors of", url, err)
	}
	defer c.admitConfigs(access)()
	sources, err := credentials.NewSources(access, c.dockerConfig.get, c.clouds)
	if err != nil {
		return nil, accessError("read credentials for", url, err)
	}
	e := &Endpoint{URL: url, ref: ref, insecure: access.Insecure}
	key := []string{ref.Registry, ref.Repository}
	for _, route := range hosts {
		h, err := c.hop(url, route, access, sources)
		if err != nil {
			return nil, err
		}
		e.hops = append(e.hops, h)
		key = append(key, h.transportKey, route.Ref.String(), route.Protocol(), route.Pull)
		key = append(key, h.source.ID()...)
	}
	e.Key = fingerprint(key...)
	return e, nil
}

// hop returns the connections and the credential for a route. url is used in errors.
func (c *Endpoints) hop(url string, route routes.Route, access credentials.Access,
	sources *credentials.Sources,
) (*hop, error) {
	transports, key, err := c.transportsFor(access, route.IsNamed)
	if err != nil {
		return nil, accessError("read certificates and proxy for", url, err)
	}
	source, err := sources.For(route)
	if err != nil {
		return nil, accessError("read credentials for", url, err)
	}
	return &hop{Route: route, endpoints: c, source: source, transports: transports, transportKey: key,
		way: fingerprint(access.Proxy.ID()...)}, nil
}

// accessError returns the error for a setting that cannot be used.
func accessError(op, subject string, err error) *ocierr.Error {
	out := &ocierr.Error{Op: op, Subject: subject, Kind: ocierr.ErrInvalidAccess, Detail: ocierr.SafeText(err)}
	switch {
	case errors.Is(err, routes.ErrBlocked):
		out.Op, out.Kind, out.Hint = "reach", ocierr.ErrUnauthorized, hintOperator
	case errors.Is(err, errBrokenFile):
		out.Hint = hintOperator
	}
	return out
}

// Host returns host[:port] of the URL.
func (e *Endpoint) Host() string { return e.ref.Registry }

// Hosts returns the number of hosts that serve the repository.
func (e *Endpoint) Hosts() int { return len(e.hops) }

// Begin returns a context for the requests of one operation. The Exchange explains the errors of these requests.
func (e *Endpoint) Begin(ctx context.Context) (context.Context, *Exchange) {
	return withExchange(ctx, e.ref.Registry)
}

// ShouldTryNextHost reports whether a repeated request would go to another host. This is the case if the failure added
// a mirror to the blocklist.
func (e *Endpoint) ShouldTryNextHost(failure *ocierr.Error) bool {
	return len(e.hops) > 1 && errors.Is(failure, ocierr.ErrIntegrity)
}

// Repository returns a new client of the protocol library for one operation. State that remains after the operation is
// in e.hops.
func (e *Endpoint) Repository() *remote.Repository {
	return &remote.Repository{
		Client:           &router{ref: e.ref, hops: e.hops, lists: map[string]*hop{}},
		Reference:        e.ref,
		PlainHTTP:        e.insecure,
		MaxMetadataBytes: MaxMetadata,
		TagListPageSize:  tagPageSize,
		TagListMaxPages:  maxTagPages,
	}
}

// Writable returns a client of the protocol library that uses no mirror.
func (e *Endpoint) Writable() *remote.Repository {
	registryHop := e.hops[slices.IndexFunc(e.hops, func(h *hop) bool { return !h.IsMirror })]
	return &remote.Repository{
		Client: hopClient{registryHop}, Reference: registryHop.Ref, PlainHTTP: registryHop.Insecure,
		MaxMetadataBytes: MaxMetadata,
	}
}

// hopClient sends the requests of one operation to one host.
type hopClient struct{ hop *hop }

// Do implements remote.Client.
func (c hopClient) Do(req *http.Request) (*http.Response, error) {
	x := exchangeFrom(req.Context())
	x.setHost(c.hop.Ref.Registry)
	return c.hop.do(req)
}
