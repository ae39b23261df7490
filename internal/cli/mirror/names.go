// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// Target returns the repository of a copy below a prefix, "host/path". The path contains the host of the source. So
// repositories of different hosts have different paths, and one rule of registries.conf for each host is enough. A rule
// applies to all names of its host, so all of them have the same path.
func Target(prefix registry.Reference, host, path string) (registry.Reference, error) {
	// A path cannot contain a port or upper case letters.
	folder := strings.ReplaceAll(routes.CanonicalHost(host, false), ":", "-")
	parts := []string{prefix.Repository, folder, strings.Trim(path, "/")}
	target := prefix
	target.Reference = ""
	target.Repository = strings.ToLower(strings.Trim(strings.Join(parts, "/"), "/"))
	if err := target.ValidateRepository(); err != nil {
		return target, fmt.Errorf("%q cannot be a repository: %w", target.Repository, err)
	}
	return target, nil
}

// Place returns the location of an artifact below a prefix: the repository of its copy. If the artifact is already
// below the prefix, it is its own repository.
func Place(prefix registry.Reference, host, path string) (registry.Reference, error) {
	isSame := routes.CanonicalHost(host, false) == routes.CanonicalHost(prefix.Registry, false)
	if isSame && (prefix.Repository == "" || strings.HasPrefix(path, prefix.Repository+"/")) {
		own := registry.Reference{Registry: host, Repository: path}
		return own, own.ValidateRepository()
	}
	return Target(prefix, host, path)
}
