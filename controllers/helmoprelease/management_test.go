// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// managingReleases returns the Reconciler of a manager that permits HelmOps of namespace "a" in the management cluster.
func managingReleases(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	c := controllertest.ManagementClient(t, objects...)
	return &Reconciler{client: c, live: c, guard: selection.NewGuard(c, "a"),
		renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c))}
}

func TestManagementReleaseNeedsPermittedHelmOp(t *testing.T) {
	t.Parallel()
	m := managingReleases(t)
	for name, tc := range map[string]struct {
		helmOp *addonsv1.HelmOp
		want   bool
	}{
		"permitted":         {controllertest.ManagementHelmOp("a"), true},
		"another namespace": {controllertest.ManagementHelmOp("b"), false}, "the HelmOp is gone": {nil, false},
		"the HelmOp now selects Clusters": {&addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, true},
	} {
		guard := m.guard
		allowed := false
		if tc.helmOp != nil {
			var err error
			if allowed, err = guard.Allows(t.Context(), tc.helmOp, clusterlink.Management); err != nil {
				t.Fatal(err)
			}
		}
		if allowed != tc.want {
			t.Errorf("%s: allowed %t", name, allowed)
		}
	}
}

func TestManagementReleaseImpersonatesServiceAccount(t *testing.T) {
	t.Parallel()
	release := controllertest.ManagementRelease(controllertest.ManagementHelmOp("a"))
	release.Spec.ImpersonateServiceAccountName = "admin"
	near := controllertest.SameNameRelease(controllertest.ManagementHelmOp("a"))
	near.Spec.ImpersonateServiceAccountName = "admin"
	unnamed := controllertest.ManagementRelease(controllertest.ManagementHelmOp("a"))
	for user, release := range map[string]*addonsv1.HelmOpRelease{
		"system:serviceaccount:a:admin": release, "system:serviceaccount:system:admin": near,
		"system:serviceaccount:a:": unnamed,
	} {
		if got := releasespec.Impersonated(release); got != user {
			t.Errorf("%s, want %s", got, user)
		}
	}
}

func TestDeletionIntentOfManagementRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOp)
		want   deletionIntent
	}{
		"unchanged": {func(*addonsv1.HelmOp) {}, intentKeep},
		"the HelmOp now selects Clusters": {func(h *addonsv1.HelmOp) {
			h.Spec.ManagementCluster, h.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
		}, intentUninstall},
		"another name is desired": {func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "other" }, intentReplace},
	} {
		helmOp := controllertest.ManagementHelmOp("a")
		tc.change(helmOp)
		m := managingReleases(t, helmOp)
		if intent, err := m.deletionIntentOf(t.Context(), controllertest.ManagementRelease(helmOp)); err != nil ||
			intent != tc.want {
			t.Errorf("%s: intent %d, %v", name, intent, err)
		}
		// Whatever becomes of it, it may be carried out.
		if may, err := m.mayAccess(t.Context(),
			&releaseScope{release: controllertest.ManagementRelease(helmOp), helmOp: helmOp}); !may || err != nil {
			t.Errorf("%s: may access %t, %v", name, may, err)
		}
	}
}

func TestUnreadableManagementClusterIsNotMissing(t *testing.T) {
	t.Parallel()
	m := managingReleases(t)
	if err := m.client.Delete(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}); err != nil {
		t.Fatal(err)
	}
	release := controllertest.ManagementRelease(controllertest.ManagementHelmOp("a"))
	if scope, err := m.gather(t.Context(), m.client, release); err == nil {
		t.Errorf("it is %v", scope.cluster)
	}
}
