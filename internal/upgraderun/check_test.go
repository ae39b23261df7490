// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// recordingEngine is an Engine for a cluster with Kubernetes v1.23.1 and without the release. It records the version of
// the artifact and of Kubernetes of each rendering.
type recordingEngine struct {
	manifest string
	rendered []string
}

func (e *recordingEngine) Present(context.Context, model.Target, string, string,
	func(objects, hooks []*unstructured.Unstructured),
) (dryrun.Present, error) {
	return dryrun.Present{KubeVersion: "v1.23.1", Serves: func(schema.GroupVersionKind) bool { return true }}, nil
}

func (e *recordingEngine) Definitions(context.Context, model.Target, string, []schema.GroupKind) (
	[]*apiextensionsv1.CustomResourceDefinition, error,
) {
	return nil, errors.New("no object has a kind of a definition")
}

func (e *recordingEngine) Render(_ context.Context, _ model.Target, desired model.Desired, _ model.Options,
	_ *bundle.Chart, _ map[string]any,
) (dryrun.Result, error) {
	e.rendered = append(e.rendered, desired.ArtifactDigest+" for now")
	return dryrun.Result{Manifest: e.manifest}, nil
}

func (e *recordingEngine) RenderUpgraded(_ context.Context, _ model.Target, desired model.Desired, _ model.Options,
	_ *bundle.Chart, _ map[string]any, upgraded dryrun.Upgraded,
) (dryrun.Result, error) {
	e.rendered = append(e.rendered, desired.ArtifactDigest+" for "+upgraded.KubeVersion)
	return dryrun.Result{Manifest: e.manifest}, nil
}

// TestRun checks which chart is rendered for each step, the findings, and that a step without an artifact is an error.
func TestRun(t *testing.T) {
	t.Parallel()
	const budget = "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n"
	for name, tc := range map[string]struct {
		check          Check
		manifest       string
		known          []string // versions with an artifact
		steps, todo    string
		rendered, fail string
	}{
		"each step has its artifact": {check: Check{Version: "v1.25"}, known: []string{"v1.24.0", "v1.25.0"},
			steps: "v1.24 v1.25", rendered: "v1.24.0 for v1.24.0, v1.25.0 for v1.25.0"},
		"the steps of the plan": {check: Check{Version: "v1.25.3", Plan: []string{"v1.24.7", "v1.25.3"}},
			known: []string{"v1.24.7", "v1.25.3"}, steps: "v1.24 v1.25", manifest: budget, todo: "v1.25 APIRemoved",
			rendered: "v1.24.7 for v1.24.7, v1.25.3 for v1.25.3"},
		"ahead, each artifact works with the version before": {check: Check{Version: "v1.25", IsAhead: true},
			known: []string{"v1.24.0", "v1.25.0"}, steps: "v1.24 v1.25",
			rendered: "v1.24.0 for v1.24.0, v1.25.0 for v1.25.0, v1.24.0 for now, v1.25.0 for v1.24.0"},
		"the artifact of a step is not known": {check: Check{Version: "v1.25"}, known: []string{"v1.24.0"},
			fail: "the check for v1.25: no artifact for v1.25.0"},
		"ahead, without a plan, the artifact for the last step": {
			check: Check{Version: "v1.25", IsAhead: true, Initial: "v1.25.0"}, known: []string{"v1.25.0"},
			steps: "v1.24 v1.25", rendered: "v1.25.0 for v1.24.0, v1.25.0 for v1.25.0, v1.25.0 for now"},
		"ahead, without a plan, from the artifact for an earlier target": {
			check: Check{Version: "v1.26.1", IsAhead: true, Initial: "v1.24.3"}, known: []string{"v1.24.3", "v1.26.1"},
			steps: "v1.24 v1.25 v1.26", rendered: "v1.24.3 for v1.24.0, v1.26.1 for v1.25.0, v1.26.1 for v1.26.1, " +
				"v1.24.3 for now, v1.26.1 for v1.24.0"},
		"too far":            {check: Check{Version: "v1.200"}, fail: "too many minor versions in one upgrade"},
		"a huge version":     {check: Check{Version: "v1.99999999999"}, fail: "is not a version of Kubernetes"},
		"kept":               {check: Check{Version: "v1.25", Kept: "unpin"}, steps: "v1.24 v1.25"},
		"the same version":   {check: Check{Version: "v1.23.9"}},
		"an older version":   {check: Check{Version: "v1.20"}},
		"no version":         {check: Check{Version: "newest"}, fail: `"newest" is not a version of Kubernetes`},
		"a constraint":       {check: Check{Version: "v1.24"}, known: []string{"v1.24.0"}, steps: "v1.24"},
		"a broken rendering": {check: Check{Version: "v1.24"}, known: []string{"v1.24.0"}, manifest: "a: b: c", fail: "yaml"},
	} {
		engine := &recordingEngine{manifest: tc.manifest}
		tc.check.Engine, tc.check.Release, tc.check.Desired = engine, &addonsv1.HelmOpRelease{}, releasespec.DesiredOf
		tc.check.Artifact = func(_ context.Context, version string) (*addonsv1.ResolvedArtifact, error) {
			if !slices.Contains(tc.known, version) {
				return nil, errors.New("no artifact for " + version)
			}
			return &addonsv1.ResolvedArtifact{Version: version, Digest: version}, nil
		}
		tc.check.Chart = func(context.Context, *addonsv1.ResolvedArtifact) (*bundle.Chart, error) {
			chart := &bundle.Chart{}
			metadata := "{metadata: {name: web, version: 1.0.0, kubeVersion: '>=1.23.0-0'}}"
			if name == "a constraint" {
				metadata, tc.todo = "{metadata: {name: web, version: 1.0.0, kubeVersion: '<1.24.0-0'}}", "v1.24 KubeVersionExcluded"
			}
			return chart, yaml.Unmarshal([]byte(metadata), chart)
		}
		result, err := tc.check.Run(t.Context())
		if tc.fail != "" {
			if err == nil || !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("%s: got the error %v", name, err)
			}
			continue
		}
		var steps, todo []string
		for _, one := range result.Steps {
			steps = append(steps, one.String())
		}
		for _, one := range result.ToDo() {
			todo = append(todo, one.Step+" "+string(one.Reason))
		}
		if err != nil || strings.Join(steps, " ") != tc.steps || strings.Join(todo, ", ") != tc.todo ||
			result.Running != "v1.23.1" {
			t.Errorf("%s: got %+v, %v", name, result, err)
		}
		if got := strings.Join(engine.rendered, ", "); tc.rendered != "" && got != tc.rendered {
			t.Errorf("%s: rendered %s", name, got)
		}
	}
}
