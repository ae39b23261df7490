// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlife"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// hooksOf returns hooks for a Cluster with a release.
func hooksOf(t *testing.T, cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease, options Options) *hooks {
	t.Helper()
	h := newHooks(controllertest.StoreOf(t, cluster, release, controllertest.HoldingHelmOp()), options)
	h.now = func() time.Time { return controllertest.LifeNow }
	return h
}

func TestBeforeClusterDelete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hold    string
		timeout time.Duration
		change  func(*addonsv1.HelmOpRelease)
		options Options
		uid     types.UID
		// later is the time of a second call, which decides.
		later time.Duration
		waits bool
	}{
		"before the hold":                {timeout: time.Hour, waits: true},
		"during the hold":                {hold: controllertest.HeldSince, timeout: time.Hour, waits: true},
		"timed out":                      {hold: controllertest.HeldSince, timeout: 5 * time.Minute},
		"the hold is over":               {hold: apiutil.DeletionHoldOver, timeout: time.Hour},
		"a hold that is not recorded":    {timeout: time.Hour, later: 59 * time.Minute, waits: true},
		"a hold that was never recorded": {timeout: time.Hour, later: time.Hour},
		"another namespace is served":    {timeout: time.Hour, options: Options{Namespace: "other"}},
		"the namespace is served":        {timeout: time.Hour, options: Options{Namespace: "ns"}, waits: true},
		"a Cluster with another UID":     {timeout: time.Hour, uid: "other"},
		"a release that need not be there": {timeout: time.Hour,
			change: func(r *addonsv1.HelmOpRelease) { r.Spec.BeforeClusterDelete = nil }},
	} {
		cluster, release := controllertest.DeletingCluster(tc.hold, false), controllertest.HoldingRelease(tc.timeout)
		if tc.change != nil {
			tc.change(release)
		}
		h := hooksOf(t, cluster, release, tc.options)
		request := &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: *cluster}
		if tc.uid != "" {
			request.Cluster.UID = tc.uid
		}
		response := &runtimehooksv1.BeforeClusterDeleteResponse{}
		h.beforeClusterDelete(t.Context(), request, response)
		if tc.later > 0 {
			h.now = func() time.Time { return controllertest.LifeNow.Add(tc.later) }
			response = &runtimehooksv1.BeforeClusterDeleteResponse{}
			h.beforeClusterDelete(t.Context(), request, response)
		}
		if response.Status != runtimehooksv1.ResponseStatusSuccess || (response.RetryAfterSeconds > 0) != tc.waits ||
			strings.Contains(response.Message, "HelmOps (h)") != tc.waits {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

func TestBeforeUpgrades(t *testing.T) {
	t.Parallel()
	hold := clusterlife.UpgradeHoldName(types.NamespacedName{Namespace: "ns", Name: "h"})
	since := controllertest.LifeNow.Add(-20 * time.Minute).UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		from, to, assigned string
		unready            bool
		record             string
		later              time.Duration
		options            Options
		step, workers      bool
	}{
		"ready":        {from: "v1.35.0", to: "v1.36.0", assigned: "v1.36.0"},
		"not assigned": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", step: true, workers: true},
		"not ready": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.36.0", unready: true, step: true,
			workers: true},
		"prepared for a later step": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.37.0", step: true},
		"recorded": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", record: "v1.36.0 since " + since, step: true,
			workers: true},
		"timed out": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", record: "v1.36.0 since " + since,
			later: 11 * time.Minute},
		"released": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", record: "v1.36.0"},
		"another step": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", record: "v1.35.0", step: true,
			workers: true},
		"never recorded": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", later: 30 * time.Minute},
		"another build":  {from: "v1.35.0+a", to: "v1.35.0+b", assigned: "v1.35.0+a"},
		"another watch filter": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0",
			options: Options{WatchFilter: "blue"}},
	} {
		for hook, want := range map[string]bool{"step": tc.step, "workers": tc.workers} {
			cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
			if tc.record != "" {
				cluster.Annotations = map[string]string{clusterlife.StepHoldName(hold): tc.record,
					clusterlife.WorkersHoldName(hold): tc.record}
			}
			release := controllertest.HoldingRelease(time.Hour)
			release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
			release.Spec.KubernetesVersion = tc.assigned
			status := metav1.ConditionTrue
			if tc.unready {
				status = metav1.ConditionFalse
			}
			conditions.Set(release, metav1.Condition{Type: addonsv1.ReadyCondition, Status: status, Reason: "Some"})
			h := hooksOf(t, cluster, release, tc.options)
			ask := func() (int32, string) {
				if hook == "step" {
					response := &runtimehooksv1.BeforeControlPlaneUpgradeResponse{}
					h.beforeControlPlaneUpgrade(t.Context(), &runtimehooksv1.BeforeControlPlaneUpgradeRequest{
						Cluster: *cluster, FromKubernetesVersion: tc.from, ToKubernetesVersion: tc.to}, response)
					return response.RetryAfterSeconds, response.Message
				}
				response := &runtimehooksv1.BeforeWorkersUpgradeResponse{}
				h.beforeWorkersUpgrade(t.Context(), &runtimehooksv1.BeforeWorkersUpgradeRequest{
					Cluster: *cluster, FromKubernetesVersion: tc.from, ToKubernetesVersion: tc.to}, response)
				return response.RetryAfterSeconds, response.Message
			}
			seconds, message := ask()
			if tc.later > 0 {
				h.now = func() time.Time { return controllertest.LifeNow.Add(tc.later) }
				seconds, message = ask()
			}
			if seconds > 0 != want || strings.Contains(message, "HelmOps (h)") != want {
				t.Errorf("%s, %s: %d seconds, %q", name, hook, seconds, message)
			}
		}
	}
}
