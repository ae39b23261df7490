// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

func TestNewRevisionClearsDrift(t *testing.T) {
	t.Parallel()
	b := newHealthBench(t)
	b.release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn}
	checked := metav1.NewTime(b.now)
	b.release.Status.Drift = &addonsv1.DriftStatus{
		Differing: 1, Objects: []addonsv1.DriftedObject{{Kind: "ConfigMap"}}, Fingerprint: "f", LastCheckedAt: checked,
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.True, addonsv1.DriftDetectedReason, "")
	b.deploy(nil)
	if got, want := *b.release.Status.Drift,
		(addonsv1.DriftStatus{LastCheckedAt: checked}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	drifted := conditions.Get(b.release, addonsv1.DriftedCondition)
	if drifted.Status != metav1Unknown || drifted.Reason != addonsv1.DriftCheckPendingReason {
		t.Errorf("Drifted is %v", drifted)
	}
	report.SetCondition(b.release, addonsv1.DriftedCondition, report.False, addonsv1.NoDriftReason, "")
	b.deploy(nil)
	if !conditions.IsFalse(b.release, addonsv1.DriftedCondition) {
		t.Error("that nothing differed stands until something is found")
	}
}

// TestFollowsOtherNamespaces checks when the watches of a release include all namespaces for the other release of the
// Cluster.
func TestFollowsOtherNamespaces(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change      func(other *addonsv1.HelmOpRelease)
		impersonate string
		want        bool
	}{
		"another namespace":  {change: func(*addonsv1.HelmOpRelease) {}, want: true},
		"the same namespace": {change: func(other *addonsv1.HelmOpRelease) { other.Spec.Release.Namespace = "own" }},
		"another Cluster":    {change: func(other *addonsv1.HelmOpRelease) { other.Spec.ClusterRef.Name = "two" }},
		"not followed": {change: func(other *addonsv1.HelmOpRelease) {
			other.Spec.Health = &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}
		}},
		"the other user is impersonated": {change: func(other *addonsv1.HelmOpRelease) {
			other.Spec.ImpersonateServiceAccountName = "tenant"
		}},
		"the own user is impersonated": {change: func(*addonsv1.HelmOpRelease) {}, impersonate: "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := controllertest.ReadyRelease("own", func(r *addonsv1.HelmOpRelease) { r.Spec.Release.Namespace = "own" })
			other := controllertest.ReadyRelease("other", func(r *addonsv1.HelmOpRelease) {
				r.Spec.Release.Namespace = "other"
				tc.change(r)
			})
			r := &Reconciler{client: controllertest.StoreOf(t, own, other)}
			p := &releasePass{releaseScope: &releaseScope{release: own}, desired: model.Desired{Namespace: "own"},
				target: model.Target{Impersonate: tc.impersonate}}
			if got := r.followsOtherNamespaces(t.Context(), p); got != tc.want {
				t.Errorf("follows other namespaces: %t", got)
			}
		})
	}
}
