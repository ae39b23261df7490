// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// tokenPath begins the path of a token service in disguise, see tokenTransport.
// No path of the distribution API begins so.
const tokenPath = "/.token-service/"

// realmParam finds the realm in a challenge, as far as it is written without
// escapes. Others are left to the library, which refuses what it cannot trust.
var realmParam = regexp.MustCompile(`(?i)(\brealm=")([^"\\]*)(")`)

// tokenTransport lets the protocol library use token services that it would
// refuse: those at a private address under another host name than the
// registry's. It has no switch for them, but trusts the registry's own host. So
// the realm of a trusted host is disguised as a path of the registry, and the
// request to that path is sent where it belongs. Whatever is not trusted stays
// as it is, for the library to judge.
type tokenTransport struct {
	base    http.RoundTripper
	trusted []string // host or host:port
}

// RoundTrip implements http.RoundTripper.
func (t *tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	service, ok := t.reveal(req.URL)
	if !ok {
		resp, err := t.base.RoundTrip(req)
		if err == nil && resp.StatusCode == http.StatusUnauthorized {
			t.disguiseRealm(resp, req.URL)
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
	t.disguiseLocation(resp, service, req.URL)
	return resp, nil
}

// disguiseRealm replaces the realm of a challenge if its host is trusted.
func (t *tokenTransport) disguiseRealm(resp *http.Response, registry *url.URL) {
	challenge := resp.Header.Get("Www-Authenticate")
	match := realmParam.FindStringSubmatchIndex(challenge)
	if match == nil {
		return
	}
	realm, err := url.Parse(challenge[match[4]:match[5]])
	if err != nil || !t.trusts(realm, registry) {
		return
	}
	resp.Header.Set("Www-Authenticate", challenge[:match[4]]+disguise(realm, registry).String()+challenge[match[5]:])
}

// disguiseLocation makes the target of a redirect absolute, for it is relative
// to where the token service really is, and keeps it in disguise while it stays
// on that host. Elsewhere, the library judges it and drops the credentials.
func (t *tokenTransport) disguiseLocation(resp *http.Response, service, registry *url.URL) {
	location, err := service.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return
	}
	if location.Scheme == service.Scheme && location.Host == service.Host && location.User == nil {
		location = disguise(location, registry)
	}
	resp.Header.Set("Location", location.String())
}

// trusts says whether a realm is at a trusted host, and not on the way out of
// TLS.
func (t *tokenTransport) trusts(realm, registry *url.URL) bool {
	if realm.User != nil || realm.Scheme != "https" && (realm.Scheme != "http" || registry.Scheme != "http") {
		return false
	}
	return isOneOf(realm, t.trusted)
}

// disguise writes the place of a token service into a path of the registry. The
// query stays, for the library adds to it.
func disguise(service, registry *url.URL) *url.URL {
	place := url.URL{Scheme: service.Scheme, Host: service.Host, Path: service.Path, RawPath: service.RawPath}
	return &url.URL{
		Scheme:   registry.Scheme,
		Host:     registry.Host,
		Path:     tokenPath + base64.RawURLEncoding.EncodeToString([]byte(place.String())),
		RawQuery: service.RawQuery,
	}
}

// reveal returns the place of a token service in disguise. It trusts no path: a
// registry could have written one.
func (t *tokenTransport) reveal(target *url.URL) (*url.URL, bool) {
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
