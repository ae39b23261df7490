// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publiccharts finds the charts of the examples for tests. This repository contains no third-party charts: they
// come from folders of this machine, or from the Go modules of their projects.
package publiccharts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

const (
	// FoldersEnv is an environment variable with folders of charts, separated as in PATH. They win over modules.
	FoldersEnv = "HELMOP_E2E_CHARTS"

	// ModulesEnv is an environment variable that permits to download the Go modules that contain charts, if it is set.
	// The go command keeps them in its module cache.
	ModulesEnv = "HELMOP_CHART_MODULES"
)

// ErrNotHere means that this machine does not have a chart.
var ErrNotHere = errors.New("the chart is not on this machine")

// module is the source of a chart in a Go module: a version that an example accepts, and the folder of the chart.
type module struct{ path, version, folder string }

// modules are the Go modules of charts, by the name of the chart in the examples. They are not dependencies: only the
// folders of the charts are read.
var modules = map[string]module{
	"aws-cloud-controller-manager": {"k8s.io/cloud-provider-aws", "v1.36.1", "charts/aws-cloud-controller-manager"},
	"cert-manager":                 {"github.com/cert-manager/cert-manager", "v1.21.1", "deploy/charts/cert-manager"},
	"cilium":                       {"github.com/cilium/cilium", "v1.19.1", "install/kubernetes/cilium"},
	"cloud-provider-azure":         {"sigs.k8s.io/cloud-provider-azure", "v1.36.5", "helm/cloud-provider-azure"},
	"gateway-helm":                 {"github.com/envoyproxy/gateway", "v1.9.0", "charts/gateway-helm"},
	"metrics-server":               {"sigs.k8s.io/metrics-server", "v0.9.0", "charts/metrics-server"},
	"openstack-cinder-csi":         {"k8s.io/cloud-provider-openstack", "v1.36.0", "charts/cinder-csi-plugin"},
	"openstack-cloud-controller-manager": {
		"k8s.io/cloud-provider-openstack", "v1.36.0", "charts/openstack-cloud-controller-manager",
	},
	"vsphere-cpi": {"k8s.io/cloud-provider-vsphere", "v1.36.0", "charts/vsphere-cpi"},
}

// Find returns the folder of a chart. If the chart is complete only after its project has built it, the folder is a
// completed copy in scratch. The error is ErrNotHere, with the reason, if the chart is in no folder of FoldersEnv, and
// in no module that may be downloaded.
func Find(ctx context.Context, name, scratch string) (string, error) {
	for _, folder := range Folders() {
		if found, err := NameOf(folder); err != nil {
			return "", fmt.Errorf("%s: %w", FoldersEnv, err)
		} else if found == name {
			return completed(folder, scratch)
		}
	}
	source, ok := modules[name]
	switch {
	case !ok:
		return "", fmt.Errorf("%w: %s is in no folder of %s, and no Go module is known to have it", ErrNotHere, name,
			FoldersEnv)
	case os.Getenv(ModulesEnv) == "":
		return "", fmt.Errorf("%w: %s is in the Go module %s, which is not downloaded because %s is not set", ErrNotHere,
			name, source.path, ModulesEnv)
	}
	root, err := download(ctx, source.path+"@"+source.version)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, filepath.FromSlash(source.folder))
	found, err := NameOf(folder)
	if err != nil {
		return "", fmt.Errorf("%s@%s, folder %s: %w", source.path, source.version, source.folder, err)
	}
	if found != name {
		return "", fmt.Errorf("%s@%s has the chart %q in %s, want %q", source.path, source.version, found, source.folder,
			name)
	}
	return completed(folder, scratch)
}

// Folders returns the folders of FoldersEnv.
func Folders() []string { return filepath.SplitList(os.Getenv(FoldersEnv)) }

// NameOf returns the name of the chart of a folder.
func NameOf(folder string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(folder, "Chart.yaml")) // #nosec G304 -- a folder that the caller chose
	if err != nil {
		return "", err
	}
	var chart struct {
		Name string `json:"name"`
	}
	return chart.Name, yaml.Unmarshal(raw, &chart)
}

// Complete returns ErrNotHere, with the reason, if the chart of a folder depends on charts that are not in its folder
// "charts". Such a chart cannot be installed.
func Complete(folder string) error {
	var chart struct {
		Name         string `json:"name"`
		Dependencies []struct {
			Name string `json:"name"`
		} `json:"dependencies"`
	}
	raw, err := os.ReadFile(filepath.Join(folder, "Chart.yaml")) // #nosec G304 -- a folder that the caller chose
	if err == nil {
		err = yaml.Unmarshal(raw, &chart)
	}
	if err != nil {
		return err
	}
	for _, dependency := range chart.Dependencies {
		found, err := filepath.Glob(filepath.Join(folder, "charts", dependency.Name+"*"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%w: %s needs the chart %s, which is not in its folder", ErrNotHere, chart.Name,
				dependency.Name)
		}
	}
	return nil
}

// unbuiltValues is the values.yaml of Envoy Gateway before its project builds the chart. It has variables.
const unbuiltValues = "values.tmpl.yaml"

// completed returns a folder, or a copy of it in scratch with the values.yaml that it lacks. Images are not pulled, so
// any name does.
func completed(folder, scratch string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(folder, unbuiltValues)) // #nosec G304 -- a folder that the caller chose
	if errors.Is(err, fs.ErrNotExist) {
		return folder, nil
	}
	if err != nil {
		return "", err
	}
	copied := filepath.Join(scratch, filepath.Base(folder))
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		return "", err
	}
	values := os.Expand(string(raw), func(variable string) string {
		if variable == "GatewayImagePullPolicy" {
			return "IfNotPresent"
		}
		return "docker.io/envoyproxy/gateway:latest"
	})
	return copied, os.WriteFile(filepath.Join(copied, "values.yaml"), []byte(values), 0o600)
}

// download returns the folder of a module in the module cache. It runs outside of a module, so that this repository
// stays unchanged.
func download(ctx context.Context, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module) // #nosec G204 -- of the list above
	command.Dir = os.TempDir()
	command.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var out, stderr bytes.Buffer
	command.Stdout, command.Stderr = &out, &stderr
	runErr := command.Run()
	var result struct{ Dir, Error string }
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, errors.Join(runErr, err), stderr.String())
	}
	if runErr != nil || result.Error != "" {
		return "", fmt.Errorf("go mod download %s: %w: %s", module, runErr, result.Error)
	}
	return result.Dir, nil
}
