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

// tokenPath is the prefix of an encoded address of a token service, see tokenTransport. The distribution API has no
// path with this prefix.
const tokenPath = "/.token-service/"

// realmParam matches a realm without escapes in a challenge. The library handles all other realms, and refuses
// untrusted realms.
var realmParam = regexp.MustCompile(`(?i)(\brealm=")([^"\\]*)(")`)

// tokenTransport makes the protocol library use token services that it would refuse: token services with a private
// address and another host name than the registry. The library has no setting for trusted hosts, but it trusts the
// registry's own host.
//
// The transport replaces a trusted realm by a path of the registry. It sends requests for this path to the token
// service. It does not change an untrusted realm. The library decides about such a realm.
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

// rewriteLocation makes the target of a redirect absolute, because the target may be relative to the token service. A
// target on the same host is encoded again. For another host, the library drops the credentials.
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

// trusts reports whether a realm has a trusted host and does not leave TLS.
func (t *tokenTransport) trusts(realm, registry *url.URL) bool {
	if realm.User != nil || realm.Scheme != "https" && (realm.Scheme != "http" || registry.Scheme != "http") {
		return false
	}
	return isOneOf(realm, t.trusted)
}

// encodeService encodes the address of a token service in a path of the registry. It does not encode the query, because
// the library adds to the query.
func encodeService(service, registry *url.URL) *url.URL {
	place := url.URL{Scheme: service.Scheme, Host: service.Host, Path: service.Path, RawPath: service.RawPath}
	return &url.URL{
		Scheme:   registry.Scheme,
		Host:     registry.Host,
		Path:     tokenPath + base64.RawURLEncoding.EncodeToString([]byte(place.String())),
		RawQuery: service.RawQuery,
	}
}

// decodeService returns the address of a token service from a path. It checks the address again, because a registry
// could have sent the path.
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
