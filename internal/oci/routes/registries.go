// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// Registries is a registries.conf of version 2, see containers-registries.conf(5). It holds only the settings that are
// used or checked.
type Registries struct {
	List []registryConfig `toml:"registry"`

	// These settings expand short names. HelmOp accepts only full names, so they are ignored.
	UnqualifiedSearch any            `toml:"unqualified-search-registries"`
	ShortNameMode     any            `toml:"short-name-mode"`
	Aliases           map[string]any `toml:"aliases"`
	// AdditionalLayerHelper is a setting for the storage of images. It is ignored.
	AdditionalLayerHelper any `toml:"additional-layer-store-auth-helper"`
	// CredentialHelpers may only have the default value, which runs no program.
	CredentialHelpers []string `toml:"credential-helpers"`
	// VersionOne is the table of version 1 of the format. It is refused.
	VersionOne any `toml:"registries"`
}

// registryConfig is one [[registry]] table.
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

// mirrorConfig is one [[registry.mirror]] table.
type mirrorConfig struct {
	Location       string `toml:"location"`
	Insecure       bool   `toml:"insecure"`
	PullFromMirror string `toml:"pull-from-mirror"`
}

// ParseRegistries parses a registries.conf. Empty data is a configuration without registries.
// Errors name the invalid key or prefix.
func ParseRegistries(data []byte) (*Registries, error) {
	config := &Registries{}
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
	for i := range config.List {
		r := &config.List[i]
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

// before reports whether r wins against another matching entry. The longer prefix wins. Between two prefixes of equal
// length, the prefix without a wildcard wins.
func (r *registryConfig) before(other *registryConfig) bool {
	if len(r.key) != len(other.key) {
		return len(r.key) > len(other.key)
	}
	return strings.HasPrefix(other.key, "*")
}

// match reports whether the prefix matches a name. rest is the part of the name after the prefix, "/path".
func (r *registryConfig) match(name string) (rest string, ok bool) {
	if domain, wildcard := strings.CutPrefix(r.key, "*"); wildcard {
		host, path, _ := strings.Cut(name, "/")
		return "/" + path, len(host) > len(domain) && strings.HasSuffix(host, domain)
	}
	rest, ok = strings.CutPrefix(name, r.key)
	return rest, ok && strings.HasPrefix(rest, "/")
}
