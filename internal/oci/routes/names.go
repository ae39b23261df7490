// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	// Scheme is the start of the URL of a repository.
	Scheme = "oci://"
	// maxURLLength is the maximum length of a URL. Registries accept at most 255 characters for a repository.
	maxURLLength = 1024
)

// dockerHub is the canonical name for all hosts of Docker Hub.
const dockerHub = "docker.io"

// hostPattern matches the host of a registry with an optional port. The protocol library accepts almost all bytes in a
// host. hostPattern refuses a trailing dot and a port with leading zeros: they are other spellings of the same host,
// and rules for the host would not match them.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9._-]*[A-Za-z0-9_-]|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// ParseURL parses the URL of a repository, "oci://host[:port]/path". Errors are ErrInvalidReference.
func ParseURL(text string) (ref registry.Reference, err error) {
	if err := checkText(text, "put a digest into the reference and credentials into a Secret"); err != nil {
		return ref, err
	}
	var detail string
	rest, isURL := strings.CutPrefix(text, Scheme)
	parsed, err := registry.ParseReference(rest)
	switch {
	case !isURL:
		detail = `must start with "oci://"`
	case err != nil:
		detail = "must be oci://host[:port]/path in lower case"
	case parsed.Reference != "" || strings.HasSuffix(rest, ":"):
		detail = "must not contain a tag; put it into the reference"
	case strings.HasSuffix(parsed.Registry, ":"):
		detail = "port is missing"
	case !hostPattern.MatchString(parsed.Registry):
		detail = "the host must be an IP address or a name of letters, digits, dots and dashes, without a trailing dot, " +
			"and the port must not start with zeros; write an international name in its xn-- form"
	default:
		return parsed, nil
	}
	return ref, invalidURL(fmt.Sprintf("%q", text), detail)
}

// ParseSite parses the URL of a site, "https://host[:port]/path", or "http://host[:port]/path" if insecure is true.
// Errors are ErrInvalidReference.
func ParseSite(text string, insecure bool) (*url.URL, error) {
	if err := checkText(text, "put credentials into a Secret"); err != nil {
		return nil, err
	}
	var detail string
	target, err := url.Parse(text)
	switch {
	case err != nil, target.Host == "", !hostPattern.MatchString(target.Host):
		detail = "must be https://host[:port]/path"
	case target.RawQuery != "", target.Fragment != "":
		detail = "must not contain a query or a fragment"
	case target.Scheme == "http" && !insecure:
		detail = "http:// needs insecure: true; use https:// to keep charts and credentials private"
	case target.Scheme != "https" && target.Scheme != "http":
		detail = "must start with https://"
	default:
		return target, nil
	}
	return nil, invalidURL(fmt.Sprintf("%q", text), detail)
}

// checkText returns an error if a URL is too long or contains "@". instead is a part of the error: it says where to put
// a credential or a digest.
func checkText(text, instead string) error {
	if len(text) > maxURLLength {
		return invalidURL("", fmt.Sprintf("longer than %d characters", maxURLLength))
	}
	if strings.ContainsRune(text, '@') {
		return invalidURL("", `"@" is not allowed; `+instead) // the text before the @ may be a password
	}
	return nil
}

func invalidURL(subject, detail string) error {
	return &ocierr.Error{Op: "parse URL", Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: detail}
}

// CanonicalHost returns a host in lower case, without the default port. All hosts of Docker Hub have one name.
func CanonicalHost(host string, insecure bool) string {
	port := ":443"
	if insecure {
		port = ":80"
	}
	host = strings.TrimSuffix(strings.ToLower(host), port)
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return dockerHub
	}
	return host
}

// canonicalName returns a name with its host in canonical form.
func canonicalName(name string, insecure bool) string {
	return withHost(name, func(host string) string { return CanonicalHost(host, insecure) })
}

// matchingName returns a name in the form that is compared with rules. It removes the default ports of both protocols:
// a rule for a host, for example a block, applies to the whole host.
func matchingName(name string) string {
	return withHost(name, func(host string) string {
		host = CanonicalHost(CanonicalHost(host, false), true)
		address, err := netip.ParseAddr(strings.Trim(host, "[]"))
		switch address = address.Unmap(); {
		case err != nil:
			return host
		case address.Is6():
			return "[" + address.String() + "]"
		}
		return address.String()
	})
}

func withHost(name string, change func(string) string) string {
	host, path, hasPath := strings.Cut(name, "/")
	if !hasPath {
		return change(host)
	}
	return change(host) + "/" + path
}

// checkName returns an error for names that are not host[:port][/path].
func checkName(name string) error {
	ref, err := registry.ParseReference(name + "/x")
	if err == nil && (ref.Reference != "" || !hostPattern.MatchString(ref.Registry)) {
		err = errors.New("not a name")
	}
	return err
}
