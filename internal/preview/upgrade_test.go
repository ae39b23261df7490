// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/upgradecheck"
)

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
		if got, message := unchecked(tc.err, tc.child); got != tc.want || message == "" {
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

// TestGroupUpgrades checks that Clusters that differ only in their names are grouped, and that groups with tasks come
// first.
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

// TestReleaseKeepsAssignedVersion has an upgrade of Kubernetes whose next step is not known. The manager then keeps the
// version of the existing release, so a preview must not return to the version that the Cluster runs.
func TestReleaseKeepsAssignedVersion(t *testing.T) {
	t.Parallel()
	b := newUpgradeBench(t, true)
	release, err := b.previewer.Release(t.Context(), b.helmOp, b.key)
	if err != nil {
		t.Fatal(err)
	}
	spec := &release.HelmOpRelease.Spec
	if spec.KubernetesVersion != "v1.35.2" || !strings.Contains(fmt.Sprint(release.unresolved), "not resolved") {
		t.Errorf("got %q, %v", spec.KubernetesVersion, release.unresolved)
	}
}

// TestUpgradeCheckHasPlan expects the exact versions of the steps that Cluster API has planned for a requested upgrade,
// and the first version of the release if Cluster API does not publish plans.
func TestUpgradeCheckHasPlan(t *testing.T) {
	t.Parallel()
	steps := []string{"v1.35.2", "v1.36.3", "v1.37.1"}
	for name, tc := range map[string]struct {
		publishesPlans bool
		plan           []string
		to, initial    string
		want           []string
	}{
		"a plan":          {true, steps, "v1.37.1", "", steps},
		"another version": {true, steps, "v1.38", "", nil},
		"no plan":         {false, nil, "v1.37.1", "v1.35.2", nil},
	} {
		b := newUpgradeBench(t, tc.publishesPlans, tc.plan...)
		release, err := b.previewer.Release(t.Context(), b.helmOp, b.key)
		if err != nil {
			t.Fatal(err)
		}
		check, err := b.previewer.upgradeCheck(t.Context(), release, b.child, tc.to)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(check.Plan, tc.want) || check.Initial != tc.initial {
			t.Errorf("%s: got the plan %q and %q first", name, check.Plan, check.Initial)
		}
	}
}

// upgradeBench is a HelmOp that is upgraded before Kubernetes, and its release in a Cluster with a requested upgrade to
// v1.37.1. The control plane runs v1.34.0, and the release has been made ready for v1.35.2.
type upgradeBench struct {
	helmOp    *addonsv1.HelmOp
	child     *addonsv1.HelmOpRelease
	key       client.ObjectKey
	previewer *Previewer
}

// newUpgradeBench returns a bench. publishesPlans says whether Cluster API publishes plans. plan are the planned steps.
func newUpgradeBench(t *testing.T, publishesPlans bool, plan ...string) *upgradeBench {
	t.Helper()
	b := &upgradeBench{key: client.ObjectKey{Namespace: "n", Name: "one"}}
	b.helmOp = controllertest.UpToDateHelmOp(t, "web", func(h *addonsv1.HelmOp) {
		h.Spec.Release.Name = "web"
		h.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		h.Spec.RefsByKubernetesVersion = []addonsv1.KubernetesVersionReference{
			{KubernetesVersion: ">=1.35", Ref: addonsv1.ArtifactReference{Tag: "2"}}}
	})
	b.child = childOf(b.helmOp, b.key, &addonsv1.HelmOpReleaseSpec{KubernetesVersion: "v1.35.2",
		ClusterRef: addonsv1.ClusterReference{Name: "one"}})
	cluster := &clusterv1.Cluster{ObjectMeta: controllertest.Meta("one")}
	cluster.Labels = map[string]string{"web": "yes"}
	controllertest.RequestUpgrade(cluster, "v1.37.1")
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{}
	for _, step := range plan {
		cluster.Status.ControlPlane.UpgradePlan = append(cluster.Status.ControlPlane.UpgradePlan,
			clusterv1.StatusUpgradePlanVersion{Version: step})
	}
	kubeconfig := controllertest.Opaque("one-kubeconfig", map[string]string{"value": `
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {token: one}}]
`})
	b.previewer = New(Options{Client: eitherReader{controllertest.StoreOf(t, b.helmOp, b.child, cluster, kubeconfig),
		controllertest.UpgradeClient(t, "n", "v1.34.0", publishesPlans)}})
	return b
}

// eitherReader reads objects from a second reader if the first one does not have them.
type eitherReader struct {
	client.Reader
	second client.Reader
}

func (r eitherReader) Get(ctx context.Context, key client.ObjectKey, object client.Object,
	options ...client.GetOption,
) error {
	if r.Reader.Get(ctx, key, object, options...) == nil {
		return nil
	}
	return r.second.Get(ctx, key, object, options...)
}
