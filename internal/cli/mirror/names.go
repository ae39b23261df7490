// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"
)

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

// Place returns where an artifact is below a prefix: the repository of its copy, or its own repository if that is below
// the prefix.
func Place(prefix registry.Reference, host, path string) (registry.Reference, error) {
	if host == prefix.Registry && (prefix.Repository == "" || strings.HasPrefix(path, prefix.Repository+"/")) {
		own := registry.Reference{Registry: host, Repository: path}
		return own, own.ValidateRepository()
	}
	return Target(prefix, host, path)
}
