// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"strings"
	"testing"
)

func TestPinOf(t *testing.T) {
	t.Parallel()
	const gomod = "module example.org/tools\n\ngo 1.26.0\n\nrequire example.org/thing v1.2.3 // indirect\n"
	tests := []struct {
		name, gomod, module string
		want, wantErr       string
	}{
		{"found", gomod, "example.org/thing", "v1.2.3", ""},
		{"not required", gomod, "example.org/other", "", "example.org/other is not required"},
		{"no go.mod", "a b c", "example.org/thing", "", "unknown directive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := pinOf([]byte(tt.gomod), tt.module)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got the error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || got.version != tt.want || len(got.hash) != 12 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestCacheNameChangesWithAnyLineOfGoMod(t *testing.T) {
	t.Parallel()
	const gomod = "module example.org/tools\n\nrequire example.org/thing v1.2.3\n"
	first, err := pinOf([]byte(gomod), "example.org/thing")
	if err != nil {
		t.Fatal(err)
	}
	second, err := pinOf([]byte(gomod+"\nrequire example.org/dependency v0.1.0\n"), "example.org/thing")
	if err != nil {
		t.Fatal(err)
	}
	a, b := cacheName("thing", first, "linux", "amd64"), cacheName("thing", second, "linux", "amd64")
	if a == b || !strings.HasPrefix(a, "thing-v1.2.3-linux-amd64-") {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestLdflags(t *testing.T) {
	t.Parallel()
	pins := map[string]pin{"k": {version: "v1.36.3"}, "c": {version: "v2.0.1"}}
	tests := map[string]struct {
		programs []program
		want     string
	}{
		"without a version": {[]program{{module: "k"}}, "-s -w"},
		"each once": {
			[]program{{module: "k", versionPackage: "x/version"}, {module: "k", versionPackage: "x/version"},
				{module: "c", versionPackage: "c/version"}},
			"-s -w -X x/version.gitVersion=v1.36.3 -X x/version.gitMajor=1 -X x/version.gitMinor=36" +
				" -X c/version.gitVersion=v2.0.1 -X c/version.gitMajor=2 -X c/version.gitMinor=0",
		},
	}
	for name, tt := range tests {
		if got := ldflags(tt.programs, pins); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestExecutable(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, p := range programs() {
		name := p.executable()
		if seen[name] {
			t.Errorf("two programs would be built as %q", name)
		}
		seen[name] = true
	}
	if !seen["server"] || !seen["kube-apiserver"] {
		t.Errorf("got %v", seen)
	}
}
