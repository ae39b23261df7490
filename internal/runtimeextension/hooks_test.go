// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"cmp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
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

// askDelete calls the hook before the deletion of a Cluster.
func (h *hooks) askDelete(t *testing.T, cluster *clusterv1.Cluster) *runtimehooksv1.BeforeClusterDeleteResponse {
	t.Helper()
	response := &runtimehooksv1.BeforeClusterDeleteResponse{}
	h.beforeClusterDelete(t.Context(), &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: *cluster}, response)
	return response
}

// eachHalfMinute advances the clock of the hooks, and calls a hook as often as a clock requires.
func (h *hooks) eachHalfMinute(later time.Duration, ask func()) {
	for end := h.now().Add(later); h.now().Before(end); {
		h.advance(min(30*time.Second, end.Sub(h.now())))
		ask()
	}
}

func (h *hooks) advance(d time.Duration) {
	now := h.now().Add(d)
	h.now = func() time.Time { return now }
}

// set replaces the Cluster in the cache of the hooks.
func (h *hooks) set(t *testing.T, cluster *clusterv1.Cluster, release *addonsv1.HelmOpRelease) {
	t.Helper()
	h.reader = controllertest.StoreOf(t, cluster, release, controllertest.HoldingHelmOp())
}

// TestClocksStopAtARecord checks that a hold that was stopped and begins again has its full time, although no
// annotation recorded the first call in time.
func TestClocksStopAtARecord(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]string{"recorded": controllertest.HeldSince,
		"stopped": apiutil.DeletionHoldStopped} {
		release := controllertest.HoldingRelease(time.Hour)
		unrecorded, recorded := controllertest.DeletingCluster("", false), controllertest.DeletingCluster(hold, false)
		recorded.Spec.Paused = ptr.To(hold == apiutil.DeletionHoldStopped)
		h := hooksOf(t, unrecorded, release, Options{})
		ask := func() { h.askDelete(t, unrecorded) }
		ask()
		h.eachHalfMinute(59*time.Minute, ask)
		h.set(t, recorded, release)
		ask()
		h.set(t, unrecorded, release)
		h.advance(40 * time.Second)
		ask()
		h.advance(40 * time.Second)
		if response := h.askDelete(t, unrecorded); response.RetryAfterSeconds == 0 {
			t.Errorf("%s: the deletion does not wait: %+v", name, response)
		}
	}
}

// TestUnaskedClockExpires checks that a clock without calls does not limit a later wait.
func TestUnaskedClockExpires(t *testing.T) {
	t.Parallel()
	cluster := controllertest.DeletingCluster("", false)
	h := hooksOf(t, cluster, controllertest.HoldingRelease(time.Hour), Options{})
	h.askDelete(t, cluster)
	h.advance(24 * time.Hour)
	if response := h.askDelete(t, cluster); response.RetryAfterSeconds == 0 {
		t.Errorf("%+v", response)
	}
}

// TestUnknownClusters checks the answers about Clusters that are not in the cache.
func TestUnknownClusters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*clusterv1.Cluster)
		shard  string
		waits  bool
	}{
		"another UID":   {change: func(c *clusterv1.Cluster) { c.UID = "other" }, waits: true},
		"another name":  {change: func(c *clusterv1.Cluster) { c.Name = "other" }, waits: true},
		"another shard": {change: func(c *clusterv1.Cluster) { c.Labels = map[string]string{addonsv1.ShardLabel: "b"} }},
		"no shard":      {change: func(*clusterv1.Cluster) {}, shard: "b"},
		"the shard": {change: func(c *clusterv1.Cluster) { c.Labels = map[string]string{addonsv1.ShardLabel: "b"} },
			shard: "b", waits: true},
	} {
		cluster := controllertest.DeletingCluster("", false)
		h := hooksOf(t, cluster, controllertest.HoldingRelease(time.Hour), Options{Shard: tc.shard})
		asked := cluster.DeepCopy()
		tc.change(asked)
		response := h.askDelete(t, asked)
		if response.Status != runtimehooksv1.ResponseStatusSuccess || (response.RetryAfterSeconds > 0) != tc.waits {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

func TestBeforeClusterDelete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		hold    string
		timeout time.Duration
		change  func(*addonsv1.HelmOpRelease)
		options Options
		// later is the time of a second call, which decides.
		later         time.Duration
		paused, alive bool
		moved, waits  bool
	}{
		"being moved":                    {timeout: time.Hour, moved: true},
		"being moved, during the hold":   {hold: controllertest.HeldSince, timeout: time.Hour, moved: true, waits: true},
		"being moved, stopped by a user": {hold: apiutil.DeletionHoldStopped, paused: true, timeout: time.Hour, moved: true},
		"before the hold":                {timeout: time.Hour, waits: true},
		"during the hold":                {hold: controllertest.HeldSince, timeout: time.Hour, waits: true},
		"timed out":                      {hold: controllertest.HeldSince, timeout: 5 * time.Minute},
		"the hold is over":               {hold: apiutil.DeletionHoldOver, timeout: time.Hour},
		"a hold that is not recorded":    {timeout: time.Hour, later: 59 * time.Minute, waits: true},
		"a hold that was never recorded": {timeout: time.Hour, later: time.Hour},
		"another namespace is served":    {timeout: time.Hour, options: Options{Namespace: "other"}},
		"the namespace is served":        {timeout: time.Hour, options: Options{Namespace: "ns"}, waits: true},
		"a user stops the hold": {hold: apiutil.DeletionHoldStopped, paused: true, timeout: time.Hour,
			later: 2 * time.Hour, waits: true},
		"the deletion is not in the cache": {timeout: time.Hour, alive: true, later: 2 * time.Hour, waits: true},
		"a release that need not be there": {timeout: time.Hour,
			change: func(r *addonsv1.HelmOpRelease) { r.Spec.BeforeClusterDelete = nil }},
	} {
		cluster, release := controllertest.DeletingCluster(tc.hold, false), controllertest.HoldingRelease(tc.timeout)
		if tc.change != nil {
			tc.change(release)
		}
		if tc.alive {
			cluster.DeletionTimestamp = nil
		}
		if tc.paused {
			cluster.Spec.Paused = ptr.To(true)
		}
		if tc.moved {
			cluster.Annotations[clusterctlv1.DeleteForMoveAnnotation] = ""
		}
		h := hooksOf(t, cluster, release, tc.options)
		response := h.askDelete(t, cluster)
		h.eachHalfMinute(tc.later, func() { response = h.askDelete(t, cluster) })
		if response.Status != runtimehooksv1.ResponseStatusSuccess || (response.RetryAfterSeconds > 0) != tc.waits ||
			strings.Contains(response.Message, "HelmOps (h)") != tc.waits {
			t.Errorf("%s: %+v", name, response)
		}
	}
}

// upgradingCluster returns a Cluster whose topology requests a version.
func upgradingCluster(requested string) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
	cluster.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: requested}
	return cluster
}

// askUpgrade calls the hook before a step of an upgrade, or before the upgrade of the workers.
func (h *hooks) askUpgrade(t *testing.T, hook string, cluster *clusterv1.Cluster, from, to string) (int32, string) {
	t.Helper()
	if hook == "step" {
		response := &runtimehooksv1.BeforeControlPlaneUpgradeResponse{}
		h.beforeControlPlaneUpgrade(t.Context(), &runtimehooksv1.BeforeControlPlaneUpgradeRequest{
			Cluster: *cluster, FromKubernetesVersion: from, ToKubernetesVersion: to}, response)
		return response.RetryAfterSeconds, response.Message
	}
	response := &runtimehooksv1.BeforeWorkersUpgradeResponse{}
	h.beforeWorkersUpgrade(t.Context(), &runtimehooksv1.BeforeWorkersUpgradeRequest{
		Cluster: *cluster, FromKubernetesVersion: from, ToKubernetesVersion: to}, response)
	return response.RetryAfterSeconds, response.Message
}

// TestEachVersionHasItsClock checks that a step waits for its full time after an earlier step was not recorded.
func TestEachVersionHasItsClock(t *testing.T) {
	t.Parallel()
	for _, hook := range []string{"step", "workers"} {
		release := controllertest.HoldingRelease(time.Hour)
		release.Spec.BeforeClusterUpgrade = &addonsv1.BeforeClusterUpgrade{}
		cluster := upgradingCluster("v1.37.0")
		h := hooksOf(t, cluster, release, Options{})
		seconds := int32(0)
		first := func() { seconds, _ = h.askUpgrade(t, hook, cluster, "v1.35.0", "v1.36.0") }
		first()
		h.eachHalfMinute(30*time.Minute, first)
		if seconds > 0 {
			t.Errorf("%s: the first version waits longer than its timeout", hook)
		}
		if seconds, message := h.askUpgrade(t, hook, cluster, "v1.36.0", "v1.37.0"); seconds == 0 {
			t.Errorf("%s: the second version does not wait: %q", hook, message)
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
		requested          string
		options            Options
		moved              bool
		step, workers      bool
	}{
		"being moved": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", moved: true},
		"being moved, recorded": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", record: "v1.36.0 since " + since,
			moved: true, step: true, workers: true},
		"a user did not request it": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0", requested: "v1.35.0",
			later: 31 * time.Minute, step: true, workers: true},
		"suspended for ever": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0",
			record: "v1.36.0 since " + since + " used 10m0s", later: 19 * time.Minute, step: true, workers: true},
		"suspended, and timed out": {from: "v1.35.0", to: "v1.36.0", assigned: "v1.35.0",
			record: "v1.36.0 since " + since + " used 10m0s", later: 20 * time.Minute},
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
			cluster := upgradingCluster(cmp.Or(tc.requested, "v1.37.0"))
			if tc.record != "" {
				cluster.Annotations = map[string]string{clusterlife.StepHoldName(hold): tc.record,
					clusterlife.WorkersHoldName(hold): tc.record}
			}
			if tc.moved {
				metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, clusterctlv1.DeleteForMoveAnnotation, "")
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
			seconds, message := h.askUpgrade(t, hook, cluster, tc.from, tc.to)
			h.eachHalfMinute(tc.later, func() { seconds, message = h.askUpgrade(t, hook, cluster, tc.from, tc.to) })
			if seconds > 0 != want || strings.Contains(message, "HelmOps (h)") != want {
				t.Errorf("%s, %s: %d seconds, %q", name, hook, seconds, message)
			}
		}
	}
}
