// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

// definition returns a CustomResourceDefinition that serves the kind Widget in a version.
func definition(t *testing.T, version string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: parsed(t, "{apiVersion: apiextensions.k8s.io/v1, "+
		"kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, "+
		"names: {kind: Widget}, versions: [{name: "+version+", served: true}]}}")}
}

// TestDefinitionsAfter checks which definition applies after a release is installed or upgraded.
func TestDefinitionsAfter(t *testing.T) {
	t.Parallel()
	cluster := apilifecycle.Definitions{}
	other := &unstructured.Unstructured{Object: parsed(t, "{apiVersion: v1, kind: Secret}")}
	if err := addDefinition(cluster, definition(t, "v1")); err != nil {
		t.Fatal(err)
	}
	file, rendered := []*unstructured.Unstructured{other, definition(t, "v2")},
		[]*unstructured.Unstructured{definition(t, "v3"), other}
	for name, tc := range map[string]struct {
		cluster         apilifecycle.Definitions
		files, rendered []*unstructured.Unstructured
		replaces        bool
		want            string
	}{
		"none":                     {},
		"of the cluster":           {cluster: cluster, want: "v1"},
		"a file is not replaced":   {cluster: cluster, files: file, want: "v1"},
		"a file is replaced":       {cluster: cluster, files: file, replaces: true, want: "v2"},
		"a file is created":        {files: file, want: "v2"},
		"a template is applied":    {cluster: cluster, rendered: rendered, want: "v3"},
		"a template after a file":  {files: file, rendered: rendered, replaces: true, want: "v3"},
		"the cluster stays itself": {cluster: cluster, replaces: true, want: "v1"},
	} {
		got, err := definitionsAfter(tc.cluster, tc.files, tc.rendered, tc.replaces)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var versions []string
		for _, one := range got {
			versions = append(versions, one.Spec.Versions[0].Name)
		}
		if strings.Join(versions, " ") != tc.want {
			t.Errorf("%s: got %v, want %q", name, versions, tc.want)
		}
	}
	broken := definition(t, "v1")
	broken.Object["spec"] = "none"
	if err := addDefinition(apilifecycle.Definitions{}, broken); err == nil {
		t.Error("a malformed definition is accepted")
	}
}

// TestExact checks the exact version of Kubernetes of each step.
func TestExact(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ running, version, want string }{
		{"v1.35.1", "v1.37", "v1.36.0 v1.37.0"},
		{"v1.35.1", "1.37.4", "v1.36.0 v1.37.4"},
		{"v1.35.1-eks-1234567", "v1.37", "v1.36.0-eks-1234567 v1.37.0-eks-1234567"},
		{"v1.35.1-eks-1234567", "v1.37.2-eks-9", "v1.36.0-eks-1234567 v1.37.2-eks-9"},
		{"v1.35.1+k3s1", "v1.37.2", "v1.36.0+k3s1 v1.37.2+k3s1"},
		{"v1.35.0-rc.1", "v1.37.0-rc.1", "v1.36.0 v1.37.0-rc.1"},
	} {
		u := &upgrade{version: tc.version, to: apilifecycle.Version{Major: 1, Minor: 37}}
		u.present.KubeVersion = tc.running
		if got := u.exact(apilifecycle.Version{Major: 1, Minor: 36}) + " " + u.exact(u.to); got != tc.want {
			t.Errorf("%s to %s: got %s, want %s", tc.running, tc.version, got, tc.want)
		}
	}
}

// TestArtifactOfStep expects the artifact for each step or, if HelmOp upgrades the release ahead, for the last one.
func TestArtifactOfStep(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	for _, tag := range []string{"v1.36.0", "v1.37.0"} {
		source := helmOp.Spec.Source
		source.Ref = addonsv1.ArtifactReference{Tag: tag}
		digest, err := apiutil.SourceDigest(&source)
		if err != nil {
			t.Fatal(err)
		}
		helmOp.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: digest,
			ResolvedArtifact: addonsv1.ResolvedArtifact{Version: tag}}
		for _, isAhead := range []bool{false, true} {
			u := &upgrade{Previewer: New(Options{}), version: "v1.37", to: apilifecycle.Version{Major: 1, Minor: 37},
				release: &Release{HelmOp: helmOp, HelmOpRelease: &addonsv1.HelmOpRelease{}, isAhead: isAhead,
					refAt: func(version string) (addonsv1.ArtifactReference, error) {
						return addonsv1.ArtifactReference{Tag: version}, nil
					}}}
			release, err := u.at(t.Context(), apilifecycle.Version{Major: 1, Minor: 36})
			if isKnown := isAhead == (tag == "v1.37.0"); (err == nil) != isKnown {
				t.Errorf("ahead %t, %s is known: got %v", isAhead, tag, err)
			} else if isKnown && release.HelmOpRelease.Spec.Artifact.Version != tag {
				t.Errorf("ahead %t: got %+v", isAhead, release.HelmOpRelease.Spec.Artifact)
			}
			if u.release.HelmOpRelease.Spec.Artifact.Version != "" {
				t.Error("the present release changed")
			}
		}
	}
}

// TestUnchecked expects a failure for a Cluster that is not ready and has a release.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	child := &addonsv1.HelmOpRelease{}
	for name, tc := range map[string]struct {
		err   error
		child *addonsv1.HelmOpRelease
		want  State
	}{
		"no kubeconfig, no release":  {fmt.Errorf("the Cluster %w", ErrNoKubeconfig), nil, StateNotReady},
		"no kubeconfig, a release":   {fmt.Errorf("the Cluster %w", ErrNoKubeconfig), child, StateFailed},
		"not initialized, a release": {errNotReady, child, StateFailed},
		"unreachable":                {helmerr.ErrUnreachable, nil, StateFailed},
	} {
		if got := unchecked(tc.err, tc.child); got.State != tc.want || got.Message == "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestPausedOf expects the reason of a pause of the Cluster, the HelmOp or the release.
func TestPausedOf(t *testing.T) {
	t.Parallel()
	pausedChild := &addonsv1.HelmOpRelease{}
	pausedChild.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
	for want, tc := range map[string]struct {
		clusterIs, helmOpIs bool
		child               *addonsv1.HelmOpRelease
	}{
		"":                             {child: &addonsv1.HelmOpRelease{}},
		"The Cluster is paused, so":    {clusterIs: true, child: &addonsv1.HelmOpRelease{}},
		"The HelmOp is paused":         {helmOpIs: true, child: &addonsv1.HelmOpRelease{}},
		"This HelmOpRelease has the p": {child: pausedChild},
	} {
		release := &Release{HelmOp: &addonsv1.HelmOp{}, cluster: &clusterv1.Cluster{}}
		release.HelmOp.Spec.Paused, release.cluster.Spec.Paused = tc.helmOpIs, ptr.To(tc.clusterIs)
		if got := pausedOf(release, tc.child); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := pausedOf(release, nil); got != "" {
			t.Errorf("without a release: got %q", got)
		}
	}
}

// TestGroupUpgrades puts Clusters together that differ in their names only, those with something to do first.
func TestGroupUpgrades(t *testing.T) {
	t.Parallel()
	of := func(cluster string, state State, message string) UpgradeResult {
		return UpgradeResult{Cluster: cluster, Release: "web-" + cluster, UpgradeOutcome: UpgradeOutcome{State: state,
			Findings: []upgradecheck.Finding{{Message: message}}}}
	}
	groups, err := GroupUpgrades([]UpgradeResult{of("prod-1", StateClear, "a"),
		of("prod-2", StateToDo, "the release has prod-2"), of("prod-4", StateFailed, ""),
		of("prod-3", StateToDo, "the release has prod-3")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range groups {
		got = append(got, strings.Join(groups[i].Clusters, "+")+": "+groups[i].Findings[0].Message)
	}
	if want := []string{"prod-4: ", "prod-2+prod-3: the release has <cluster>", "prod-1: a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
