// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"
)

const dockerHub = "docker.io"

// Parse returns the full reference of an image, by the rules of container runtimes: an image without a host is in
// Docker Hub, and an image without a tag and a digest has the tag "latest".
func Parse(name string) (registry.Reference, error) {
	host, rest, hasHost := strings.Cut(name, "/")
	if !hasHost || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host, rest = dockerHub, name
		if !hasHost {
			rest = "library/" + name
		}
	}
	// If there are a tag and a digest, the digest counts.
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
