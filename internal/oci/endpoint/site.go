// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const opFile = "get"

// Site is a web server with files, for example a Helm chart repository. Its requests have the same connections, limits,
// retries and errors as requests to registries. It has no mirrors. Username, password and client certificate are sent
// only to the site's own host and port.
type Site struct {
	base *url.URL
	hop  *hop
	http *http.Client
	key  string
}

// Site returns the site at a URL. The URL is "https://host[:port]/path", or "http://…" with Access.Insecure. The
// function Site sends no request. Errors are ErrInvalidReference, ErrInvalidAccess, and ErrUnauthorized for a host that
// the operator has blocked.
func (c *Endpoints) Site(base string, access credentials.Access) (*Site, error) {
	target, err := routes.ParseSite(base, access.Insecure)
	if err != nil {
		return nil, err
	}
	h, err := c.siteHop(target, base, access)
	if err != nil {
		return nil, err
	}
	// There is no memory budget: the responses are files and are not read into memory as a whole. There are no TokenHosts:
	// siteTransport adds the credential.
	client := c.pool.Client(transport.Target{
		Connections: h.transports, Host: target.Host, Name: h.Ref.Registry, Way: h.way,
		User: fingerprint(credentials.ID(h.source.Static)...), KindOf: siteRequestKind,
	})
	s := &Site{base: target, hop: h, http: client}
	client.Transport = &siteTransport{site: s, base: client.Transport, userAgent: c.opts.UserAgent}
	s.key = fingerprint(append([]string{target.String(), h.transportKey}, h.source.ID()...)...)
	return s, nil
}

// siteHop returns the connections and the credential for a site.
func (c *Endpoints) siteHop(target *url.URL, base string, access credentials.Access) (*hop, error) {
	insecure := target.Scheme == "http"
	ref := registry.Reference{Registry: target.Host, Repository: strings.Trim(target.Path, "/")}
	registries, err := c.registries.get()
	if err != nil {
		return nil, accessError("check the host of", base, err)
	}
	isNamed, err := registries.Admits(ref, insecure)
	if err != nil {
		return nil, accessError("reach", base, err)
	}
	defer c.admitConfigs(access)()
	sources, err := credentials.NewSources(access, c.dockerConfig.get, c.clouds)
	if err != nil {
		return nil, accessError("read credentials for", base, err)
	}
	return c.hop(base, routes.Route{Ref: ref, Insecure: insecure, IsNamed: isNamed}, access, sources)
}

// siteTransport adds the credential to requests for the site's own host.
type siteTransport struct {
	site *Site
	base http.RoundTripper

	userAgent string
}

// RoundTrip implements http.RoundTripper.
func (t *siteTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	sent.Header.Set("User-Agent", t.userAgent)
	sent.Header.Del("Authorization")
	credential := t.site.hop.source.Static
	base := t.site.base
	switch isOwn := req.URL.Scheme == base.Scheme && transport.HostPort(req.URL) == transport.HostPort(base); {
	case !isOwn || credential == auth.EmptyCredential:
	case credential.AccessToken != "":
		sent.Header.Set("Authorization", "Bearer "+credential.AccessToken)
	case credential.Username != "":
		sent.SetBasicAuth(credential.Username, credential.Password)
	}
	return t.base.RoundTrip(sent)
}

type siteKindKey struct{}

// siteRequestKind returns the kind of a request to a site, for RequestEvent.
func siteRequestKind(req *http.Request) string {
	if req.Response != nil { // set by net/http on requests that follow a redirect
		return transport.RequestRedirect
	}
	kind, _ := req.Context().Value(siteKindKey{}).(string)
	return kind
}

// Key identifies the site. It is a hash of the URL, the credentials, the certificates and the proxy.
func (s *Site) Key() string { return s.key }

// Owner returns the owner of the memory for responses of the site, see bytebudget.
func (s *Site) Owner(ctx context.Context) bytebudget.Owner {
	return bytebudget.Owner{Tenant: transport.TenantOf(ctx), Host: s.base.Host}
}

// SubjectOf returns a URL for messages. It omits the parts that may be secret: the user, and the query, which may
// contain a token.
func SubjectOf(target *url.URL) string {
	shown := url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path, RawPath: target.RawPath}
	return shown.String()
}

// Begin returns a context for the requests of one operation. The Exchange explains the errors of these requests.
func (s *Site) Begin(ctx context.Context) (context.Context, *Exchange) {
	return withExchange(ctx, s.base.Host)
}

// Get requests a file at an absolute URL, with additional headers. The URL may have another host than the site. kind is
// RequestIndex or transport.RequestBlob. The status of the response is 200 or 304. Any other status is an error. Errors
// are *Error values, also errors that occur while the body is read. The caller must close the body.
func (s *Site) Get(ctx context.Context, kind string, target *url.URL, header http.Header) (*http.Response, error) {
	subject := SubjectOf(target)
	if s.base.Scheme == "https" && target.Scheme != "https" || target.Scheme != "https" && target.Scheme != "http" {
		return nil, &ocierr.Error{Op: opFile, Subject: subject, Kind: ocierr.ErrUnsupported, Detail: fmt.Sprintf(
			"files with the protocol %q are not read from this repository", truncate.Text(target.Scheme, 100))}
	}
	ctx, x := s.Begin(context.WithValue(ctx, siteKindKey{}, kind))
	x.usesCredential(s.hop.source.Hint)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, &ocierr.Error{Op: opFile, Kind: ocierr.ErrInvalidReference, Detail: "the URL of the file is malformed"}
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, x.Error(opFile, subject, err)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified {
		_ = resp.Body.Close() // only the status is needed
		return nil, x.Error(opFile, subject, &errcode.ErrorResponse{Method: req.Method, URL: target,
			StatusCode: resp.StatusCode})
	}
	resp.Body = &siteBody{ReadCloser: resp.Body, explain: func(err error) error {
		return x.Error(opFile, subject, err)
	}}
	return resp, nil
}

// siteBody converts the errors of a body to *Error values.
type siteBody struct {
	io.ReadCloser
	explain func(error) error
}

// Read implements io.Reader.
func (b *siteBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.explain(err)
	}
	return n, err
}
