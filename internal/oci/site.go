// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/singleflight"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/flight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/store"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/transport"
)

const opFile = "get"

// Site is a web server with files, for example a Helm chart repository. Requests to it use the
// connections, limits, retries and errors of requests to registries. Mirrors are for registries
// only. Username and password, and the client certificate, are sent to the site's own host and port
// only.
type Site struct {
	client *Client
	base   *url.URL
	hop    *hop
	http   *http.Client
	key    string
}

// Site returns the site at a URL, "https://host[:port]/path", or "http://…" with Access.Insecure.
// It makes no request. Errors are ErrInvalidReference, ErrInvalidAccess, and ErrUnauthorized for a
// host that the operator has blocked.
func (c *Client) Site(base string, access Access) (*Site, error) {
	target, err := parseSite(base, access.Insecure)
	if err != nil {
		return nil, err
	}
	h, err := c.clients.siteHop(target, base, access)
	if err != nil {
		return nil, err
	}
	s := &Site{client: c, base: target, hop: h}
	s.key = fingerprint(append([]string{target.String(), h.transportKey}, h.source.ID()...)...)
	s.http = c.clients.siteClient(s)
	return s, nil
}

func parseSite(base string, insecure bool) (*url.URL, error) {
	invalid := func(subject, detail string) (*url.URL, error) {
		return nil, &ocierr.Error{Op: "parse URL", Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: detail}
	}
	if len(base) > routes.MaxURLLength {
		return invalid("", fmt.Sprintf("longer than %d characters", routes.MaxURLLength))
	}
	if strings.ContainsRune(base, '@') {
		// The text before the @ may be a password: do not repeat it.
		return invalid("", `"@" is not allowed; put credentials into a Secret`)
	}
	subject := fmt.Sprintf("%q", base)
	target, err := url.Parse(base)
	switch {
	case err != nil, target.Host == "", !routes.IsHost(target.Host):
		return invalid(subject, "must be https://host[:port]/path")
	case target.RawQuery != "", target.Fragment != "":
		return invalid(subject, "must not contain a query or a fragment")
	case target.Scheme == "http" && !insecure:
		return invalid(subject, "http:// needs insecure: true; use https:// to keep charts and credentials private")
	case target.Scheme != "https" && target.Scheme != "http":
		return invalid(subject, "must start with https://")
	}
	return target, nil
}

// siteHop returns the connections and the credential for a site.
func (c *clients) siteHop(target *url.URL, base string, access Access) (*hop, error) {
	invalid := func(op string, err error) (*hop, error) {
		out := &ocierr.Error{Op: op, Subject: base, Kind: ocierr.ErrInvalidAccess, Detail: ocierr.SafeText(err)}
		if errors.Is(err, errBrokenFile) {
			out.Hint = hintOperator
		}
		return nil, out
	}
	insecure := target.Scheme == "http"
	ref := registry.Reference{Registry: target.Host, Repository: strings.Trim(target.Path, "/")}
	registries, err := c.registries.get()
	if err != nil {
		return invalid("check the host of", err)
	}
	isNamed, err := registries.Admits(ref, insecure)
	if err != nil {
		return nil, &ocierr.Error{Op: "reach", Subject: base, Kind: ocierr.ErrUnauthorized, Detail: ocierr.SafeText(err), Hint: hintOperator}
	}
	sources, err := credentials.NewSources(access, c.dockerConfig.get, c.clouds)
	if err != nil {
		return invalid("read credentials for", err)
	}
	transports, key, err := c.transportsFor(access, c.opts.RefuseLocal && !access.Trusted && !isNamed)
	if err != nil {
		return invalid("read certificates and proxy for", err)
	}
	r := routes.Route{Ref: ref, Insecure: insecure, IsNamed: isNamed}
	source, err := sources.For(r)
	if err != nil {
		return invalid("read credentials for", err)
	}
	return &hop{Route: r, clients: c, source: source, transports: transports, transportKey: key,
		way: fingerprint(access.Proxy.ID()...)}, nil
}

// siteClient returns the client of a site. It adds the credential to each request.
func (c *clients) siteClient(s *Site) *http.Client {
	h := s.hop
	// The answers are files and are not read into memory as a whole: no budget.
	client := c.pool.Client(transport.Target{
		Connections: h.transports, Host: s.base.Host, Name: h.Ref.Registry, Way: h.way,
		User: fingerprint(credentials.ID(h.source.Static)...), KindOf: siteRequestKind,
	})
	client.Transport = &siteTransport{site: s, base: client.Transport}
	return client
}

// siteTransport adds the credential to requests to the site's own host.
type siteTransport struct {
	site *Site
	base http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *siteTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := req.Clone(req.Context())
	sent.Header.Set("User-Agent", t.site.client.opts.UserAgent)
	sent.Header.Del("Authorization")
	credential := t.site.hop.source.Static
	switch isOwn := req.URL.Scheme == t.site.base.Scheme && transport.HostPort(req.URL) == transport.HostPort(t.site.base); {
	case !isOwn || credential == auth.EmptyCredential:
	case credential.AccessToken != "":
		sent.Header.Set("Authorization", "Bearer "+credential.AccessToken)
	case credential.Username != "":
		sent.SetBasicAuth(credential.Username, credential.Password)
	}
	return t.base.RoundTrip(sent)
}

type siteKindKey struct{}

// siteRequestKind returns the kind of a request to a site for RequestEvent.
func siteRequestKind(req *http.Request) string {
	if req.Response != nil { // set by net/http on requests that follow a redirect
		return transport.RequestRedirect
	}
	kind, _ := req.Context().Value(siteKindKey{}).(string)
	return kind
}

// Key identifies the site by its URL, credentials, certificates and proxy. It contains only hashes.
func (s *Site) Key() string { return s.key }

// Once runs fn once for all concurrent callers of a tenant with the same site and content. It takes at most
// Options.PullTimeout, and a caller that gives up does not fail the others. Errors get the operation and the subject
// where these are missing.
func Once[T any](ctx context.Context, s *Site, group *singleflight.Group, content, op, subject string,
	fn func(context.Context) (T, error),
) (T, error) {
	key := strings.Join([]string{s.key, content, transport.TenantOf(ctx)}, "\n")
	return flight.Do(ctx, group, flight.Call{Key: key, Limit: s.client.opts.PullTimeout, Op: op, Subject: subject}, fn)
}

// Owner returns who memory for the answers of the site is charged to, see bytebudget.
func (s *Site) Owner(ctx context.Context) bytebudget.Owner {
	return bytebudget.Owner{Tenant: transport.TenantOf(ctx), Host: s.base.Host}
}

// SubjectOf returns a URL for messages, without what may be secret: the user, and the query, which may have a token.
func SubjectOf(target *url.URL) string {
	shown := url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path, RawPath: target.RawPath}
	return shown.String()
}

// Get requests a file at an absolute URL, of the site or of another host, with additional headers.
// kind is RequestIndex or transport.RequestBlob. The status of the answer is 200 or 304; any other status is an
// error. Errors, also those of reading the body, are *Error values. The caller must close the body.
func (s *Site) Get(ctx context.Context, kind string, target *url.URL, header http.Header) (*http.Response, error) {
	subject := SubjectOf(target)
	if s.base.Scheme == "https" && target.Scheme != "https" || target.Scheme != "https" && target.Scheme != "http" {
		return nil, &ocierr.Error{Op: opFile, Subject: subject, Kind: ocierr.ErrUnsupported,
			Detail: fmt.Sprintf("files with the protocol %q are not read from this repository", clip(target.Scheme))}
	}
	ctx, x := withExchange(context.WithValue(ctx, siteKindKey{}, kind), s.base.Host)
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
		return nil, classify(opFile, subject, err, x)
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotModified {
		_ = resp.Body.Close() // the status is enough
		return nil, classify(opFile, subject, &errcode.ErrorResponse{Method: req.Method, URL: target,
			StatusCode: resp.StatusCode}, x)
	}
	resp.Body = &siteBody{ReadCloser: resp.Body, explain: func(err error) error {
		return classify(opFile, subject, err, x)
	}}
	return resp, nil
}

// siteBody turns the errors of a body into *Error values.
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

// Pull pulls a file into the content store, once for all concurrent callers of a tenant, and returns its digest and
// size. If want is not empty, the file must have this digest, and is not requested if the store has it. Files over
// Options.MaxBlobBytes are ErrTooLarge.
func (s *Site) Pull(ctx context.Context, target *url.URL, want string) (Layer, error) {
	dgst, subject := digest.Digest(want), SubjectOf(target)
	if want != "" && dgst.Validate() != nil {
		return Layer{}, &ocierr.Error{Op: opFile, Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: "not a digest"}
	}
	return Once(ctx, s, &s.client.blobs, target.String()+"\n"+want, opFile, subject,
		func(ctx context.Context) (Layer, error) {
			if stored, ok := s.client.StoredFile(want); ok {
				return stored, nil
			}
			return s.pull(ctx, target, dgst)
		})
}

// pull pulls a file. It repeats the request if the body breaks off or if the store asks for a second attempt.
func (s *Site) pull(ctx context.Context, target *url.URL, want digest.Digest) (layer Layer, err error) {
	// Wait for room before the request, so that no connection is held meanwhile.
	lease, err := s.client.pulls.Acquire(ctx, s.Owner(ctx), minPull)
	if err != nil {
		return Layer{}, noRoom(opFile, SubjectOf(target))
	}
	defer lease.Release()
	for range blobAttempts {
		layer, err = s.pullOnce(ctx, target, want, lease)
		if err == nil || !errors.Is(err, ocierr.ErrIntegrity) && !errors.Is(err, store.ErrTryAgain) {
			break
		}
	}
	if err != nil {
		_, x := withExchange(ctx, s.base.Host)
		return Layer{}, classify(opFile, SubjectOf(target), err, x)
	}
	return layer, nil
}

func (s *Site) pullOnce(ctx context.Context, target *url.URL, want digest.Digest,
	lease *bytebudget.Lease,
) (Layer, error) {
	limit := min(s.client.opts.MaxBlobBytes, s.client.opts.MaxBytes)
	resp, err := s.Get(ctx, transport.RequestBlob, target, nil)
	if err != nil {
		return Layer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // the body was read to its end, or is given up
	if resp.ContentLength >= 0 {
		if resp.ContentLength > limit {
			return Layer{}, &ocierr.Error{Op: opFile, Subject: SubjectOf(target), Kind: ocierr.ErrTooLarge,
				Detail: fmt.Sprintf("%d bytes; the limit is %d", resp.ContentLength, limit)}
		}
		limit = resp.ContentLength
	}
	if lease.Grow(min(limit, s.client.pulls.Share())) != nil {
		return Layer{}, noRoom(opFile, SubjectOf(target))
	}
	desc, release, err := s.client.store.WriteFile(want, limit, resp.Body)
	if err != nil {
		return Layer{}, err
	}
	release()
	return Layer{Digest: desc.Digest.String(), Size: desc.Size}, nil
}

// StoredFile returns the digest and the size of a file if the store has it. It makes no request.
func (c *Client) StoredFile(dgst string) (Layer, bool) {
	size, ok := c.store.Size(digest.Digest(dgst))
	return Layer{Digest: dgst, Size: size}, ok
}

// FileContent returns a Content whose only layer is a file, and whose digest is that of the file. pull pulls the file
// into the store; ReadLayer calls it if the store does not have the file.
func (c *Client) FileContent(url, configMediaType string, layer Layer, pull func(context.Context) error) *Content {
	return &Content{
		URL: url, Digest: layer.Digest, ConfigMediaType: configMediaType, Layers: []Layer{layer}, client: c,
		pull: func(ctx context.Context, desc ocispec.Descriptor) error {
			if c.store.Has(desc.Digest) {
				return nil
			}
			return pull(ctx)
		},
	}
}
