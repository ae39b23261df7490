// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// tokenPath is the prefix of the encoded address of a token service, see tokenTransport. No path of
// the distribution API has this prefix.
const tokenPath = "/.token-service/"

// realmParam matches the realm in a challenge, if it has no escapes. The library handles other
// realms and refuses untrusted ones.
var realmParam = regexp.MustCompile(`(?i)(\brealm=")([^"\\]*)(")`)

// tokenTransport lets the protocol library use token services that it would refuse: token services
// at a private address under another host name than the registry's. The library has no setting for
// them, but trusts the registry's own host.
//
// So the transport replaces a trusted realm by a path of the registry, and sends requests for this
// path to the token service. An untrusted realm stays as it is, and the library decides about it.
type tokenTransport struct {
	base    http.RoundTripper
	trusted []string // host or host:port
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	service, ok := t.decodeService(req.URL)
	if !ok {
		resp, err := t.base.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			t.rewriteRealm(resp, req.URL)
		}
		return resp, err
	}
	sent := req.Clone(req.Context())
	sent.URL, sent.Host = service, service.Host
	resp, err := t.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	resp.Request = req
	t.rewriteLocation(resp, service, req.URL)
	return resp, nil
}

// rewriteRealm replaces the realm of a challenge if its host is trusted.
func (t *tokenTransport) rewriteRealm(resp *http.Response, registry *url.URL) {
	challenge := resp.Header.Get("Www-Authenticate")
	match := realmParam.FindStringSubmatchIndex(challenge)
	if match == nil {
		return
	}
	realm, err := url.Parse(challenge[match[4]:match[5]])
	if err != nil || !t.trusts(realm, registry) {
		return
	}
	resp.Header.Set("Www-Authenticate", challenge[:match[4]]+encodeService(realm, registry).String()+challenge[match[5]:])
}

// rewriteLocation makes the target of a redirect absolute, because it is relative to the token
// service. A target on the same host is encoded again. For other hosts, the library decides and
// drops the credentials.
func (t *tokenTransport) rewriteLocation(resp *http.Response, service, registry *url.URL) {
	location, err := service.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return
	}
	if location.Scheme == service.Scheme && location.Host == service.Host && location.User == nil {
		location = encodeService(location, registry)
	}
	resp.Header.Set("Location", location.String())
}

// trusts reports whether a realm is at a trusted host and does not leave TLS.
func (t *tokenTransport) trusts(realm, registry *url.URL) bool {
	if realm.User != nil || realm.Scheme != "https" && (realm.Scheme != "http" || registry.Scheme != "http") {
		return false
	}
	return isOneOf(realm, t.trusted)
}

// encodeService encodes the address of a token service into a path of the registry. The query stays
// as it is, because the library extends it.
func encodeService(service, registry *url.URL) *url.URL {
	place := url.URL{Scheme: service.Scheme, Host: service.Host, Path: service.Path, RawPath: service.RawPath}
	return &url.URL{
		Scheme:   registry.Scheme,
		Host:     registry.Host,
		Path:     tokenPath + base64.RawURLEncoding.EncodeToString([]byte(place.String())),
		RawQuery: service.RawQuery,
	}
}

// decodeService returns the address of the token service in a path. It checks the address again,
// because a registry could have sent the path.
func (t *tokenTransport) decodeService(target *url.URL) (*url.URL, bool) {
	text, ok := strings.CutPrefix(target.Path, tokenPath)
	if !ok {
		return nil, false
	}
	place, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	service, err := url.Parse(string(place))
	if err != nil || !t.trusts(service, target) {
		return nil, false
	}
	service.RawQuery = target.RawQuery
	return service, true
}
