// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
)

// FullRelease returns a release with all fields set that Helm stores.
func FullRelease() *release.Release {
	at := helmtime.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return &release.Release{
		Name: "demo", Namespace: "apps", Version: 3,
		Info: &release.Info{FirstDeployed: at, LastDeployed: at, Description: "Upgrade complete",
			Status: release.StatusDeployed, Notes: "notes"},
		Chart: &chart.Chart{
			Metadata: &chart.Metadata{APIVersion: "v2", Name: "demo", Version: "1.0.0",
				Dependencies: []*chart.Dependency{{Name: "sub", Version: "1"}}},
			Lock: &chart.Lock{Generated: at.Time, Digest: "sha256:1"},
			Templates: []*chart.File{{Name: "templates/a.yaml", Data: []byte("a: {{ .Values.x }}")},
				{Name: "templates/empty.yaml", Data: []byte{}}},
			Values: map[string]any{"x": "1", "list": []any{"a", true}},
			Schema: []byte(`{"type":"object"}`),
			Files:  []*chart.File{{Name: "README.md", Data: []byte(strings.Repeat("read me ", 1000))}},
		},
		Config:   map[string]any{"x": "2"},
		Manifest: "---\na: 2\n",
		Hooks: []*release.Hook{{Name: "hook", Kind: "Job", Path: "templates/hook.yaml", Manifest: "kind: Job",
			Events: []release.HookEvent{release.HookPreInstall}}},
	}
}

// Release returns a small revision of a release.
func Release(revision int, status release.Status) *release.Release {
	return &release.Release{Name: "demo", Namespace: "apps", Version: revision, Info: &release.Info{Status: status}}
}
