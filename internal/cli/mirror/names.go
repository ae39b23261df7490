// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"
)

const dockerHub = "docker.io"

// ParseImage returns the full reference of an image as container runtimes read it: without a host, the image is in
// Docker Hub, and without a tag and a digest it is "latest".
func ParseImage(name string) (registry.Reference, error) {
	host, rest, hasHost := strings.Cut(name, "/")
	if !hasHost || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = dockerHub, name
		if !hasHost {
			rest = "library/" + name
		}
	}
	// With a tag and a digest, the digest counts.
	if path, digest, ok := strings.Cut(rest, "@"); ok {
		if i := strings.LastIndex(path, ":"); i > strings.LastIndex(path, "/") {
			path = path[:i]
		}
		rest = path + "@" + digest
	}
	ref, err := registry.ParseReference(host + "/" + rest)
	if err != nil {
		return ref, fmt.Errorf("%q is not the name of an image: %w", name, err)
	}
	if ref.Reference == "" {
		ref.Reference = "latest"
	}
	return ref, nil
}

// Target returns the repository of a copy below a prefix, "host/path". The host of the source is a part of the path, so
// that the repositories of different hosts do not collide, and so that one rule of registries.conf is enough for each
// host.
func Target(prefix registry.Reference, host, path string) (registry.Reference, error) {
	// A path cannot have a port or upper case.
	parts := []string{prefix.Repository, strings.ReplaceAll(host, ":", "-"), strings.Trim(path, "/")}
	target := prefix
	target.Reference = ""
	target.Repository = strings.ToLower(strings.Trim(strings.Join(parts, "/"), "/"))
	if err := target.ValidateRepository(); err != nil {
		return target, fmt.Errorf("%q cannot be a repository: %w", target.Repository, err)
	}
	return target, nil
}
