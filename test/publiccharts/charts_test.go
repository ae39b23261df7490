// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package publiccharts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "charts", "crds"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dependencies, want := range map[string]error{
		"[]": nil, "[{name: crds}]": nil, "[{name: crds}, {name: common}]": ErrNotHere,
	} {
		content := []byte("dependencies: " + dependencies)
		if err := os.WriteFile(filepath.Join(folder, "Chart.yaml"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Complete(folder); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", dependencies, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	folder := t.TempDir()
	for name, content := range map[string]string{
		"Chart.yaml": "name: gateway", unbuiltValues: "image: ${GatewayImage}\npolicy: ${GatewayImagePullPolicy}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(FoldersEnv, folder)
	t.Setenv(ModulesEnv, "")
	found, err := Find(t.Context(), "gateway", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile(filepath.Join(found, "values.yaml"))
	if want := "image: docker.io/envoyproxy/gateway:latest\npolicy: IfNotPresent\n"; err != nil || string(values) != want {
		t.Errorf("got %q (%v), want %q", values, err, want)
	}
	for name, want := range map[string]string{
		"unknown": FoldersEnv, "cert-manager": "because " + ModulesEnv + " is not set",
	} {
		_, err := Find(t.Context(), name, t.TempDir())
		if !errors.Is(err, ErrNotHere) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrNotHere with %q", name, err, want)
		}
	}
	t.Setenv(FoldersEnv, filepath.Join(folder, "missing"))
	if _, err := Find(t.Context(), "gateway", t.TempDir()); err == nil || errors.Is(err, ErrNotHere) {
		t.Errorf("a folder without a chart: got %v", err)
	}
}
