// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
)

// toolEnv is the environment in which other tools are built.
var toolEnv = []string{"CGO_ENABLED=0", "GOWORK=off"}

// buildTools builds programs of another tool. tools is the folder below root whose go.mod pins the version of the tool,
// and output is the path of the program. If there are several packages, output is a folder, with a separator at its
// end.
func buildTools(ctx context.Context, root, tools, output string, packages ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags", "-s -w", "-o", output}, packages...)
	_, err := run(ctx, filepath.Join(root, filepath.FromSlash(tools)), "go", toolEnv, args...)
	return err
}

// toolFolder returns the folder with the files of a module that the go.mod in the folder tools pins. It downloads the
// module if the module is not in Go's cache.
func toolFolder(ctx context.Context, root, tools, module string) (string, error) {
	out, err := run(ctx, filepath.Join(root, filepath.FromSlash(tools)), "go", toolEnv, "mod", "download", "-json", module)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(out.Stdout), &downloaded); err != nil {
		return "", fmt.Errorf("read the folder of the module %s: %w", module, err)
	}
	return downloaded.Dir, nil
}
