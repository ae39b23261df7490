// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckExecutable builds a small program for each platform of a release. Each is a program for its platform, and
// for no other one.
func TestCheckExecutable(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	programs := map[string][]byte{}
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			path := filepath.Join(folder, goos+"-"+arch)
			cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, source)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s/%s: %v\n%s", goos, arch, err, out)
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			programs[goos+"/"+arch] = content
		}
	}
	programs["a text"] = []byte("#!/bin/sh\n")
	for of, content := range programs {
		for platform := range programs {
			goos, arch, _ := strings.Cut(platform, "/")
			if err := CheckExecutable(content, goos, arch); (err == nil) != (of == platform && of != "a text") {
				t.Errorf("the program for %s, checked for %s: %v", of, platform, err)
			}
		}
	}
}
