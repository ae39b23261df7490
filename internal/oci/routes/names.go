// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"oras.land/oras-go/v2/registry"
)

const (
	// Scheme is the start of the URLs of repositories.
	Scheme = "oci://"
	// MaxURLLength is far above what registries accept (255 for a repository).
	MaxURLLength = 1024
)

// dockerHub is the canonical host for all host names of Docker Hub.
const dockerHub = "docker.io"

// hostPattern matches a registry's host with an optional port. The protocol library accepts almost
// any bytes in a host. A trailing dot, or zeros before the port, would be other spellings of the
// same host, which rules about the host do not match.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9._-]*[A-Za-z0-9_-]|\[[0-9A-Fa-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// IsHost reports whether text is a host with an optional port.
func IsHost(text string) bool { return hostPattern.MatchString(text) }

// ParseURL returns the repository in a URL, "oci://host[:port]/path". Errors are ErrInvalidReference.
func ParseURL(url string) (registry.Reference, error) {
	invalid := func(subject, detail string) (registry.Reference, error) {
		return registry.Reference{}, &ocierr.Error{Op: "parse URL", Subject: subject, Kind: ocierr.ErrInvalidReference, Detail: detail}
	}
	if len(url) > MaxURLLength {
		return invalid("", fmt.Sprintf("longer than %d characters", MaxURLLength))
	}
	if strings.ContainsRune(url, '@') {
		// The text before the @ may be a password: do not repeat it.
		return invalid("", `"@" is not allowed; put a digest into the reference and credentials into a Secret`)
	}
	subject := fmt.Sprintf("%q", url)
	rest, ok := strings.CutPrefix(url, Scheme)
	if !ok {
		return invalid(subject, `must start with "oci://"`)
	}
	ref, err := registry.ParseReference(rest)
	if err != nil {
		return invalid(subject, "must be oci://host[:port]/path in lower case")
	}
	if ref.Reference != "" || strings.HasSuffix(rest, ":") {
		return invalid(subject, "must not contain a tag; put it into the reference")
	}
	if strings.HasSuffix(ref.Registry, ":") {
		return invalid(subject, "port is missing")
	}
	if !IsHost(ref.Registry) {
		return invalid(subject,
			"the host must be an IP address or a name of letters, digits, dots and dashes, without a trailing dot, "+
				"and the port must not start with zeros; write an international name in its xn-- form")
	}
	return ref, nil
}

// CanonicalHost returns a host in lower case, without the default port, and with one name for
// Docker Hub.
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

// canonicalName replaces all host names of Docker Hub by one name.
func canonicalName(name string, insecure bool) string {
	return withHost(name, func(host string) string { return CanonicalHost(host, insecure) })
}

// matchingName returns a name in the form that is compared with rules. It removes the default ports
// of both protocols, because a rule for a host, for example to block it, is meant for the whole
// host.
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

// checkName returns an error for names other than host[:port][/path].
func checkName(name string) error {
	ref, err := registry.ParseReference(name + "/x")
	if err == nil && (ref.Reference != "" || !IsHost(ref.Registry)) {
		err = errors.New("not a name")
	}
	return err
}
