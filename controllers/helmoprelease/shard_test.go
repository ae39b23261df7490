// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preflight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

// forgetting counts the calls that drop state.
type forgetting struct {
	Engine
	clusters, disconnected []string
	releases               []types.NamespacedName
}

func (f *forgetting) Forget(key string) { f.clusters = append(f.clusters, key) }

type forgettingWatcher struct {
	Watcher
	*forgetting
}

func (w forgettingWatcher) Disconnect(cluster string) {
	w.disconnected = append(w.disconnected, cluster)
}

func (forgettingWatcher) Expect(types.NamespacedName, objectwatch.Connection, objectwatch.Expectation) (end func()) {
	return func() {}
}

func (w forgettingWatcher) Forget(key types.NamespacedName) { w.releases = append(w.releases, key) }

func (forgettingWatcher) Look(types.NamespacedName) (objectwatch.Snapshot, bool) {
	return objectwatch.Snapshot{}, false
}

func TestGatherDetectsOtherShards(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		helmOp, cluster           string
		noHelmOp, noCluster       bool
		otherHelmOp, otherCluster bool
		wantHelmOp, wantCluster   bool
	}{
		"both in the shard": {helmOp: "a", cluster: "a", wantHelmOp: true, wantCluster: true},
		"the Cluster is of another shard": {helmOp: "a", cluster: "b", wantHelmOp: true, wantCluster: true,
			otherCluster: true},
		"the Cluster is of no shard": {helmOp: "a", cluster: "", wantHelmOp: true, wantCluster: true,
			otherCluster: true},
		"the Cluster's label is empty": {helmOp: "a", cluster: "-", wantHelmOp: true, wantCluster: true,
			otherCluster: true},
		"the Cluster does not exist":     {helmOp: "a", noCluster: true, wantHelmOp: true},
		"the HelmOp is of another shard": {helmOp: "b", cluster: "a", otherHelmOp: true},
		"the HelmOp is of no shard":      {helmOp: "", cluster: "a", otherHelmOp: true},
		"the HelmOp does not exist":      {noHelmOp: true, cluster: "a", wantCluster: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, release := controllertest.ShardedObjects(tc.helmOp, tc.cluster, "a")
			objects := []client.Object{release}
			if !tc.noHelmOp {
				objects = append(objects, h)
			}
			if !tc.noCluster {
				objects = append(objects, c)
			}
			cached, live := controllertest.ShardStores(t, "a", objects...)
			r := &Reconciler{
				client: cached, live: live, shard: "a", engine: &forgetfulEngine{}, watcher: &forgetfulWatcher{},
				reads:    recordreads.New(1, clusterlink.New(clusterlink.Options{})),
				renderer: render.New(nil, clusterview.NewReader(cached, cached)),
			}
			scope, err := r.gather(t.Context(), cached, release)
			if err != nil {
				t.Fatal(err)
			}
			if scope.isOfOtherShard != tc.otherHelmOp || (scope.otherShard != "") != tc.otherCluster {
				t.Errorf("the HelmOp is of another shard: %v, the Cluster: %q", scope.isOfOtherShard, scope.otherShard)
			}
			if (scope.helmOp != nil) != tc.wantHelmOp || (scope.cluster != nil) != tc.wantCluster {
				t.Errorf("HelmOp %v, Cluster %v", scope.helmOp, scope.cluster)
			}
		})
	}
}

type forgetfulEngine struct{ Engine }

func (*forgetfulEngine) Forget(string) {}

type forgetfulWatcher struct{ Watcher }

func (*forgetfulWatcher) Disconnect(string) {}

// TestOtherShardIsCheckedAgain checks the time of the next pass over a release whose Cluster has another shard.
func TestOtherShardIsCheckedAgain(t *testing.T) {
	t.Parallel()
	_, _, release := controllertest.ShardedObjects("a", "b", "a")
	r := &Reconciler{images: preflight.New(nil, 1), reads: recordreads.New(1, clusterlink.New(clusterlink.Options{})),
		watcher: forgettingWatcher{forgetting: &forgetting{}}}
	scope := &releaseScope{release: release, otherShard: "it is of shard b"}
	if again := r.reportOtherShard(scope).RequeueAfter; again <= 0 || again > 2*otherShardRetry {
		t.Errorf("checked again after %s", again)
	}
	release.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if again := r.reportOtherShard(scope).RequeueAfter; again <= 0 || again > 2*downRetry {
		t.Errorf("a release under deletion is checked again after %s", again)
	}
}

// TestMayBegin checks that no action begins for a release that was deleted or re-created after the start of the pass.
func TestMayBegin(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   bool
	}{
		"unchanged":      {func(*addonsv1.HelmOpRelease) {}, true},
		"changed":        {func(r *addonsv1.HelmOpRelease) { r.Generation++ }, true},
		"under deletion": {func(r *addonsv1.HelmOpRelease) { r.DeletionTimestamp = &now }, false},
		"re-created":     {func(r *addonsv1.HelmOpRelease) { r.UID = "another" }, false},
		"deleted":        {func(r *addonsv1.HelmOpRelease) { r.Name = "another" }, false},
	} {
		release := controllertest.ReadyRelease("cni", nil)
		known := release.DeepCopy()
		tc.change(known)
		r := &Reconciler{client: controllertest.StoreOf(t, known)}
		if got, err := r.mayBegin(t.Context(), &releaseScope{release: release}); got != tc.want || err != nil {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
