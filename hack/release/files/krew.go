// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Build is the archive of the command line for one platform.
type Build struct {
	// OS and Arch are the platform, in Go's terms.
	OS, Arch string
	// Archive is the file name of the archive. Sum is its SHA-256.
	Archive, Sum string
	// Binary is the name of the program in the archive.
	Binary string
}

// Krew returns the manifest of the plugin "helmop" for Krew, the plugin manager of kubectl. The archives are at URLs
// below url.
func Krew(version, url string, builds []Build) ([]byte, error) {
	var platforms []any
	for _, build := range builds {
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": build.OS, "arch": build.Arch}},
			"uri":      strings.TrimSuffix(url, "/") + "/" + build.Archive,
			"sha256":   build.Sum,
			"bin":      build.Binary,
			"files": []any{
				map[string]any{"from": build.Binary, "to": "."},
				map[string]any{"from": licenseFile, "to": "."},
			},
		})
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "helmop"},
		"spec": map[string]any{
			"version":          version,
			"homepage":         "https://github.com/helmop/cluster-api-addon-provider-helmop",
			"shortDescription": "See and steer Helm releases in Cluster API clusters",
			"description": "Shows the state of a fleet of Helm releases that HelmOp, a Cluster API addon provider, installs.\n" +
				"Steers rollouts, previews changes, and works with charts and manifests in OCI registries.\n",
			"platforms": platforms,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("write the manifest of Krew: %w", err)
	}
	return manifest, nil
}

// licenseFile is the licence in each archive, which Krew requires.
const licenseFile = "LICENSE"
