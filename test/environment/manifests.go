// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// Version is the version of HelmOp that clusterctl installs from this checkout.
const Version = "v0.1.0"

// WriteReleaseManifests builds the files of a version from a folder of root, such as config/default, as "make
// release-manifests" does. It writes them for clusterctl into addon-helmop/<version> in the folder repository. It
// returns the path of the components file.
func WriteReleaseManifests(ctx context.Context, set *binaries.Set, root, config, repository, version string,
) (string, error) {
	config = filepath.Join(root, config)
	dir := filepath.Join(repository, "addon-helmop", version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, set.Path(binaries.Kubectl), "kustomize", config)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build the components from %s: %w: %s", config, err, stderr.Bytes())
	}
	metadata, err := os.ReadFile(filepath.Join(root, "metadata.yaml"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600); err != nil {
		return "", err
	}
	components := filepath.Join(dir, "addon-components.yaml")
	return components, os.WriteFile(components, stdout.Bytes(), 0o600)
}
