// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry"
)

const (
	pullAll        = "all"
	pullDigestOnly = "digest-only"
	pullTagOnly    = "tag-only"
)

// Route is one host that serves a repository: a mirror, or the registry itself.
type Route struct {
	// Ref is the name of the repository at this host.
	Ref registry.Reference
	// Insecure means plain HTTP.
	Insecure bool
	// IsMirror is true for a mirror.
	IsMirror bool
	// Pull is the kind of requests that a mirror serves: "all", "digest-only" or "tag-only".
	Pull string
	// IsOtherHost is true if the host is not the host in the source's URL.
	IsOtherHost bool
	// IsNamed is true if the registries file contains the host.
	IsNamed bool
}

// Serves reports whether the route serves requests for a path of the distribution API.
func (r Route) Serves(path string) bool {
	switch r.Pull {
	case pullDigestOnly:
		return byDigest(path)
	case pullTagOnly:
		return !byDigest(path)
	}
	return true
}

// Protocol returns the protocol of the route, "http" or "https".
func (r Route) Protocol() string {
	if r.Insecure {
		return "http"
	}
	return "https"
}

// byDigest reports whether a path of the distribution API contains a digest. Paths of tags and of tag lists contain
// none.
func byDigest(path string) bool {
	_, err := digest.Parse(path[strings.LastIndex(path, "/")+1:])
	return err == nil
}

// ErrBlocked means that the operator has blocked a registry.
var ErrBlocked = errors.New("the registry is blocked by the manager's registries file")

// Routes returns the hosts that serve a repository, in the order in which they are tried. The last route is the
// registry itself, or its replacement. The error is ErrBlocked for a blocked registry.
func (c *Registries) Routes(ref registry.Reference, insecure bool) ([]Route, error) {
	name := matchingName(ref.Registry + "/" + ref.Repository)
	own := Route{Ref: ref, Insecure: insecure}
	var best *registryConfig
	var rest string
	for i := range c.List {
		after, ok := c.List[i].match(name)
		if ok && (best == nil || c.List[i].before(best)) {
			best, rest = &c.List[i], after
		}
	}
	if best == nil {
		return []Route{own}, nil
	}
	if best.Blocked {
		return nil, ErrBlocked
	}
	own.Insecure, own.IsNamed = own.Insecure || best.Insecure, true
	if best.Location != "" && best.Location != best.Prefix {
		moved, err := registry.ParseReference(best.Location + rest)
		if err != nil {
			return nil, fmt.Errorf("the registries file rewrites it to %q, which is not a repository", best.Location+rest)
		}
		own.Ref, own.Insecure = moved, best.Insecure || insecure && moved.Registry == ref.Registry
		own.IsOtherHost = moved.Registry != ref.Registry
	}
	var out []Route
	for _, mirror := range best.Mirrors {
		there, err := registry.ParseReference(mirror.Location + rest)
		if err != nil {
			return nil, fmt.Errorf("the registries file rewrites it to %q, which is not a repository", mirror.Location+rest)
		}
		out = append(out, Route{Ref: there, Insecure: mirror.Insecure, IsMirror: true, Pull: mirror.PullFromMirror,
			IsOtherHost: true, IsNamed: true})
	}
	return append(out, own), nil
}

// Admits reports whether the registries file contains the host of a site and does not replace it. The error is
// ErrBlocked for a blocked host. Mirrors and replacements do not apply to sites.
func (c *Registries) Admits(site registry.Reference, insecure bool) (isNamed bool, err error) {
	routes, err := c.Routes(site, insecure)
	if errors.Is(err, ErrBlocked) {
		return false, err
	}
	return err == nil && routes[len(routes)-1].IsNamed && !routes[len(routes)-1].IsOtherHost, nil
}
