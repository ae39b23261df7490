// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
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
		renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c, c))}
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
		if tc.want {
			scope := &releaseScope{release: controllertest.ManagementRelease(tc.helmOp), helmOp: tc.helmOp}
			if may, err := m.mayAccess(t.Context(), scope); !may || err != nil {
				t.Errorf("%s: may access %t, %v", name, may, err)
			}
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

// TestAdmitLossInManagementCluster checks which actions may delete a Cluster without a confirmation. Only an action in
// a workload cluster may, or the deletion of the HelmOp.
func TestAdmitLossInManagementCluster(t *testing.T) {
	t.Parallel()
	cluster := inventory.Ref{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Cluster", Namespace: "a", Name: "one"}
	loss := model.Loss{Objects: []inventory.Ref{cluster}, Total: 1, Revision: 3, Uninstalls: true}
	scopeOf := func(change func(*releaseScope)) *releaseScope {
		helmOp := controllertest.ManagementHelmOp("a")
		scope := &releaseScope{helmOp: helmOp, release: controllertest.ManagementRelease(helmOp)}
		change(scope)
		return scope
	}
	for name, tc := range map[string]struct {
		change func(*releaseScope)
		want   string
	}{
		"a HelmOp": {func(*releaseScope) {}, "annotate " + addonsv1.HelmOpResource},
		"a HelmOp that now selects Clusters": {func(s *releaseScope) {
			s.helmOp.Spec.ManagementCluster, s.helmOp.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
		}, "the uninstallation of release"},
		"a deleted HelmOp": {func(s *releaseScope) { s.helmOp.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, ""},
		"no limit":         {func(s *releaseScope) { s.helmOp.Spec.MaxDeletions = new(intstr.FromString("100%")) }, ""},
		"no HelmOp":        {func(s *releaseScope) { s.helmOp = nil }, "annotate " + addonsv1.HelmOpReleaseResource},
		"a workload cluster": {func(s *releaseScope) {
			s.release = controllertest.SameNameRelease(s.helmOp)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scope := scopeOf(tc.change)
			if got := admitted(t, scope, loss); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
				t.Fatalf("%q, want %q", got, tc.want)
			}
			if tc.want == "" {
				return
			}
			// The command in the message confirms this loss, but no loss of the next HelmOpRelease.
			_, value, _ := strings.Cut(admitted(t, scope, loss), addonsv1.ConfirmDeletionsAnnotation+"=")
			confirmed := client.Object(scope.release)
			if scope.helmOp != nil {
				confirmed = scope.helmOp
			}
			confirmed.SetAnnotations(map[string]string{addonsv1.ConfirmDeletionsAnnotation: value})
			if got := admitted(t, scope, loss); got != "" {
				t.Errorf("refused after the confirmation: %s", got)
			}
			scope.release.UID = "another"
			if admitted(t, scope, loss) == "" {
				t.Error("the confirmation is valid for another HelmOpRelease")
			}
		})
	}
}

// admitted returns the message of the refusal of a loss; empty if the loss is permitted.
func admitted(t *testing.T, scope *releaseScope, loss model.Loss) string {
	t.Helper()
	admit, err := admitLoss(scope)
	if err != nil {
		t.Fatal(err)
	}
	if admit == nil {
		return ""
	}
	if err := admit(loss); err != nil {
		return err.Error()
	}
	return ""
}
