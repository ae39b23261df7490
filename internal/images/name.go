// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"fmt"
	"strings"

	"oras.land/oras-go/v2/registry"
)

const (
	dockerHub = "docker.io"
	// oldDockerHub is the host of Docker Hub in old names. Container runtimes replace it.
	oldDockerHub = "index.docker.io"
)

// Parse returns the full reference of an image, by the rules of container runtimes: an image without a host is in
// Docker Hub, an image of Docker Hub without a user is in "library", and an image without a tag and a digest has the
// tag "latest".
func Parse(name string) (registry.Reference, error) {
	host, rest, hasHost := strings.Cut(name, "/")
	switch {
	case !hasHost || !strings.ContainsAny(host, ".:") && host != "localhost" && host == strings.ToLower(host):
		host, rest = dockerHub, name
	case host == oldDockerHub:
		host = dockerHub
	}
	if host == dockerHub && !strings.Contains(rest, "/") {
		rest = "library/" + rest
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
