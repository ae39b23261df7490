// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
)

// registriesConfig is the used part of a registries.conf of version 2, see
// containers-registries.conf(5).
type registriesConfig struct {
	Registries []registryConfig `toml:"registry"`

	// These settings expand short names. HelmOp uses full names only.
	UnqualifiedSearch any            `toml:"unqualified-search-registries"`
	ShortNameMode     any            `toml:"short-name-mode"`
	Aliases           map[string]any `toml:"aliases"`
	// AdditionalLayerHelper concerns the storage of images.
	AdditionalLayerHelper any `toml:"additional-layer-store-auth-helper"`
	// CredentialHelpers may have the default value only, which does not run a program.
	CredentialHelpers []string `toml:"credential-helpers"`
	// VersionOne is the table of version 1 of the format.
	VersionOne any `toml:"registries"`
}

// registryConfig is one [[registry]].
type registryConfig struct {
	Prefix             string         `toml:"prefix"`
	Location           string         `toml:"location"`
	Insecure           bool           `toml:"insecure"`
	Blocked            bool           `toml:"blocked"`
	MirrorByDigestOnly bool           `toml:"mirror-by-digest-only"`
	Mirrors            []mirrorConfig `toml:"mirror"`

	// key is the prefix in the form that is compared with names, see matchingName.
	key string
}

// mirrorConfig is one [[registry.mirror]].
type mirrorConfig struct {
	Location       string `toml:"location"`
	Insecure       bool   `toml:"insecure"`
	PullFromMirror string `toml:"pull-from-mirror"`
}

const (
	pullAll        = "all"
	pullDigestOnly = "digest-only"
	pullTagOnly    = "tag-only"
)

// route is one host that serves a repository: a mirror, or the registry itself.
type route struct {
	// ref is the repository's name at this host.
	ref registry.Reference
	// insecure means plain HTTP.
	insecure bool
	// mirror is set for mirrors. pull is the kind of requests that a mirror may get, one of the pull
	// constants.
	mirror bool
	pull   string
	// otherHost is set if the host is not the one in the source's URL.
	otherHost bool
	// named is set if the registries file names the host.
	named bool
}

// serves reports whether the route may get a request by digest, or by name.
func (r route) serves(byDigest bool) bool {
	switch r.pull {
	case pullDigestOnly:
		return byDigest
	case pullTagOnly:
		return !byDigest
	}
	return true
}

var errBlocked = errors.New("the registry is blocked by the manager's registries file")

// parseRegistries parses a registries.conf. Empty data is a configuration without registries.
// Errors name the invalid key or prefix.
func parseRegistries(data []byte) (*registriesConfig, error) {
	config := &registriesConfig{}
	meta, err := toml.Decode(string(data), config)
	if err != nil {
		return nil, err
	}
	if config.VersionOne != nil {
		return nil, errors.New("[registries] is version 1 of the format; use [[registry]] tables as in version 2")
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, fmt.Errorf("unknown key %q", unknown[0].String())
	}
	for _, helper := range config.CredentialHelpers {
		if helper != "containers-auth.json" {
			return nil,
				fmt.Errorf("credential-helpers: %q is not supported, because helpers are programs; "+
					"use a Docker config file instead", helper)
		}
	}
	seen := map[string]bool{}
	for i := range config.Registries {
		r := &config.Registries[i]
		if err := r.complete(); err != nil {
			return nil, fmt.Errorf("[[registry]] %d (prefix %q, location %q): %w", i+1, r.Prefix, r.Location, err)
		}
		if seen[r.key] {
			return nil, fmt.Errorf("[[registry]] %d: duplicate prefix %q", i+1, r.Prefix)
		}
		seen[r.key] = true
	}
	return config, nil
}

// complete fills in defaults and returns an error for contradictory settings.
func (r *registryConfig) complete() error {
	r.Prefix, r.Location = canonicalName(r.Prefix, r.Insecure), canonicalName(r.Location, r.Insecure)
	if r.Prefix == "" {
		r.Prefix = r.Location
	}
	r.key = matchingName(r.Prefix)
	wildcard := strings.HasPrefix(r.Prefix, "*.")
	switch {
	case r.Prefix == "":
		return errors.New("prefix or location must be set")
	case wildcard && strings.Contains(r.Prefix, "/"):
		return errors.New("a prefix with a wildcard must be a host name alone")
	case checkName(strings.TrimPrefix(r.Prefix, "*.")) != nil:
		return errors.New("prefix must be host[:port][/path] or *.host")
	case r.Location != "" && checkName(r.Location) != nil:
		return errors.New("location must be host[:port][/path]")
	}
	if r.Location == "" && !wildcard {
		r.Location = r.Prefix
	}
	for i := range r.Mirrors {
		if err := r.Mirrors[i].complete(r.MirrorByDigestOnly); err != nil {
			return fmt.Errorf("mirror %d (location %q): %w", i+1, r.Mirrors[i].Location, err)
		}
	}
	return nil
}

func (m *mirrorConfig) complete(byDigestOnly bool) error {
	m.Location = canonicalName(m.Location, m.Insecure)
	if checkName(m.Location) != nil {
		return errors.New("location must be host[:port][/path]")
	}
	switch m.PullFromMirror {
	case "":
		m.PullFromMirror = pullAll
		if byDigestOnly {
			m.PullFromMirror = pullDigestOnly
		}
	case pullAll, pullDigestOnly, pullTagOnly:
		if byDigestOnly {
			return errors.New("pull-from-mirror cannot be used with mirror-by-digest-only of the registry")
		}
	default:
		return fmt.Errorf("pull-from-mirror must be %s, %s or %s, not %q", pullAll, pullDigestOnly, pullTagOnly,
			m.PullFromMirror)
	}
	return nil
}

// canonicalName replaces all host names of Docker Hub by one name.
func canonicalName(name string, insecure bool) string {
	return withHost(name, func(host string) string { return canonicalHost(host, insecure) })
}

// matchingName returns a name in the form that is compared with rules. It removes the default ports
// of both protocols, because a rule for a host, for example to block it, is meant for the whole
// host.
func matchingName(name string) string {
	return withHost(name, func(host string) string {
		host = canonicalHost(canonicalHost(host, false), true)
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
	if err == nil && (ref.Reference != "" || !hostPattern.MatchString(ref.Registry)) {
		err = errors.New("not a name")
	}
	return err
}

// routes returns the hosts that serve a repository, in the order in which they are tried. The last
// is the registry itself, or its replacement. A blocked registry is errBlocked.
func (c *registriesConfig) routes(ref registry.Reference, insecure bool) ([]route, error) {
	name := matchingName(ref.Registry + "/" + ref.Repository)
	own := route{ref: ref, insecure: insecure}
	var best *registryConfig
	var rest string
	for i := range c.Registries {
		after, ok := c.Registries[i].match(name)
		if ok && (best == nil || c.Registries[i].before(best)) {
			best, rest = &c.Registries[i], after
		}
	}
	if best == nil {
		return []route{own}, nil
	}
	if best.Blocked {
		return nil, errBlocked
	}
	own.insecure, own.named = own.insecure || best.Insecure, true
	if best.Location != "" && best.Location != best.Prefix {
		moved, err := registry.ParseReference(best.Location + rest)
		if err != nil {
			return nil, fmt.Errorf("the registries file rewrites it to %q, which is not a repository", best.Location+rest)
		}
		own.ref, own.insecure = moved, best.Insecure || insecure && moved.Registry == ref.Registry
		own.otherHost = moved.Registry != ref.Registry
	}
	var out []route
	for _, mirror := range best.Mirrors {
		there, err := registry.ParseReference(mirror.Location + rest)
		if err != nil {
			return nil, fmt.Errorf("the registries file rewrites it to %q, which is not a repository", mirror.Location+rest)
		}
		out = append(out, route{ref: there, insecure: mirror.Insecure, mirror: true, pull: mirror.PullFromMirror,
			otherHost: true})
	}
	return append(out, own), nil
}

// admits reports whether the file names the host of a site, or its replacement. A blocked host is errBlocked. Mirrors
// and replacements do not apply to sites.
func (c *registriesConfig) admits(site registry.Reference, insecure bool) (isNamed bool, err error) {
	routes, err := c.routes(site, insecure)
	if errors.Is(err, errBlocked) {
		return false, err
	}
	return err == nil && routes[len(routes)-1].named && !routes[len(routes)-1].otherHost, nil
}

// before reports whether r takes precedence over another matching entry: the longer prefix, and of
// two equally long prefixes the one without a wildcard.
func (r *registryConfig) before(other *registryConfig) bool {
	if len(r.key) != len(other.key) {
		return len(r.key) > len(other.key)
	}
	return strings.HasPrefix(other.key, "*")
}

// match reports whether the prefix matches a name, and returns the rest of the name, "/path".
func (r *registryConfig) match(name string) (rest string, ok bool) {
	if domain, wildcard := strings.CutPrefix(r.key, "*"); wildcard {
		host, path, _ := strings.Cut(name, "/")
		return "/" + path, len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	rest, ok = strings.CutPrefix(name, r.key)
	return rest, ok && strings.HasPrefix(rest, "/")
}

// byDigest reports whether a path of the distribution API names content by its digest. Tag lists
// are by name, as tags are.
func byDigest(path string) bool {
	_, err := digest.Parse(path[strings.LastIndex(path, "/")+1:])
	return err == nil
}
