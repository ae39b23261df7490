/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// ofShard are the labels of a shard; "-" is the label without a value.
func ofShard(shard string) map[string]string {
	switch shard {
	case "":
		return map[string]string{}
	case "-":
		return map[string]string{addonsv1.ShardLabel: ""}
	default:
		return map[string]string{addonsv1.ShardLabel: shard}
	}
}

func TestShardSelectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		manager, object string
		want            bool
	}{
		{"", "", true}, {"", "a", false}, {"", "-", false}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"a", "-", false},
	} {
		has := ofShard(tc.object)
		if got := ShardSelector(tc.manager).Matches(labels.Set(has)); got != tc.want {
			t.Errorf("ShardSelector(%q) of %v: %v", tc.manager, has, got)
		}
		if got := otherShards(tc.manager).Matches(labels.Set(has)); got == tc.want {
			t.Errorf("otherShards(%q) of %v: %v", tc.manager, has, got)
		}
		if got := isOfShard(&metav1.ObjectMeta{Labels: has}, tc.manager); got != tc.want {
			t.Errorf("isOfShard(%q) of %v: %v", tc.manager, has, got)
		}
	}
}

// shardStores are what the cache of a manager holds and, live, all there is.
func shardStores(t *testing.T, shard string, objects ...client.Object) (cached, live client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	all, own := fake.NewClientBuilder().WithScheme(scheme), fake.NewClientBuilder().WithScheme(scheme)
	all.WithStatusSubresource(&addonsv1.HelmOp{})
	all.WithObjects(kubeSystem())
	own.WithObjects(kubeSystem())
	for _, obj := range objects {
		all.WithObjects(obj.DeepCopyObject().(client.Object))
		if isOfShard(obj, shard) {
			own.WithObjects(obj.DeepCopyObject().(client.Object))
		}
	}
	return own.Build(), all.Build()
}

// shardedObjects are a HelmOp, a Cluster, and the release of the one in the other.
func shardedObjects(helmOp, cluster, release string) (*addonsv1.HelmOp, *clusterv1.Cluster, *addonsv1.HelmOpRelease) {
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u", Labels: ofShard(helmOp)}, Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one", UID: "c", Labels: ofShard(cluster)}}
	r := readyRelease("h", func(r *addonsv1.HelmOpRelease) {
		r.ResourceVersion = ""
		maps.Copy(r.Labels, ofShard(release))
	})
	return h, c, r
}

func TestGatherKnowsOtherShards(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		helmOp, cluster       string
		noHelmOp, noCluster   bool
		leaving, elsewhere    bool
		wantHelmOp, wantThere bool
	}{
		"all of the shard":             {helmOp: "a", cluster: "a", wantHelmOp: true, wantThere: true},
		"the Cluster is of another":    {helmOp: "a", cluster: "b", wantHelmOp: true, wantThere: true, elsewhere: true},
		"the Cluster is of none":       {helmOp: "a", cluster: "", wantHelmOp: true, wantThere: true, elsewhere: true},
		"the Cluster's label is empty": {helmOp: "a", cluster: "-", wantHelmOp: true, wantThere: true, elsewhere: true},
		"the Cluster is gone":          {helmOp: "a", noCluster: true, wantHelmOp: true},
		"the HelmOp is of another":     {helmOp: "b", cluster: "a", leaving: true},
		"the HelmOp is of none":        {helmOp: "", cluster: "a", leaving: true},
		"the HelmOp is gone":           {noHelmOp: true, cluster: "a", wantThere: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, release := shardedObjects(tc.helmOp, tc.cluster, "a")
			objects := []client.Object{release}
			if !tc.noHelmOp {
				objects = append(objects, h)
			}
			if !tc.noCluster {
				objects = append(objects, c)
			}
			cached, live := shardStores(t, "a", objects...)
			r := &releaseReconciler{
				client: cached, live: live, shard: "a", engine: &forgetfulEngine{}, watcher: &forgetfulWatcher{}, sightings: newSightings(1), incarnations: &clusterIncarnations{},
				renderer: newRenderer(nil, newObjectReader(cached)),
			}
			scope, err := r.gather(t.Context(), cached, release)
			if err != nil {
				t.Fatal(err)
			}
			if scope.isLeaving != tc.leaving || (scope.elsewhere != "") != tc.elsewhere {
				t.Errorf("leaving %v, elsewhere %q", scope.isLeaving, scope.elsewhere)
			}
			if (scope.helmOp != nil) != tc.wantHelmOp || (scope.cluster != nil) != tc.wantThere {
				t.Errorf("HelmOp %v, Cluster %v", scope.helmOp, scope.cluster)
			}
		})
	}
}

type forgetfulEngine struct{ Engine }

func (*forgetfulEngine) Forget(string) {}

type forgetfulWatcher struct{ Watcher }

func (*forgetfulWatcher) Disconnect(string) {}

func TestAdoption(t *testing.T) {
	t.Parallel()
	h, c, release := shardedObjects("b", "b", "a")
	revision := &addonsv1.HelmOpRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h-1", Labels: childSelector(h), OwnerReferences: release.OwnerReferences}}
	stranger := readyRelease("other", func(r *addonsv1.HelmOpRelease) {
		r.ResourceVersion = ""
		r.Labels[addonsv1.HelmOpNameLabel] = "h" // As two long names may share it.
	})
	_, live := shardStores(t, "b", h, c, release, revision, stranger)
	empty, _ := shardStores(t, "b", h)
	r := &helmOpReconciler{client: live, live: live, shard: "b", adoptions: newAdoptions(), now: time.Now}
	r.client = &lagging{Client: live, shown: empty}
	for _, want := range []bool{false, false} {
		if complete, err := r.adopt(t.Context(), h); err != nil || complete != want {
			t.Fatalf("complete %v, %v, while the cache shows nothing", complete, err)
		}
	}
	for name, obj := range map[string]client.Object{"release": release, "revision": revision} {
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil || !isOfShard(obj, "b") {
			t.Errorf("the %s has %v, %v", name, obj.GetLabels(), err)
		}
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(stranger), stranger); err != nil || isOfShard(stranger, "b") {
		t.Errorf("another HelmOp's has %v, %v", stranger.Labels, err)
	}
	r.client = live
	if complete, err := r.adopt(t.Context(), h); err != nil || !complete {
		t.Errorf("complete %v, %v", complete, err)
	}
	if !r.adoptions.of(h).done {
		t.Error("it is asked anew each time")
	}
	r.adoptions.forget(client.ObjectKeyFromObject(h), h.UID)
	if r.adoptions.of(h).done {
		t.Error("a HelmOp that left is believed to have everything")
	}
}

// lagging writes at once, and reads what was.
type lagging struct {
	client.Client
	shown client.Reader
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	return l.shown.Get(ctx, key, obj, options...)
}

func TestClustersOfOtherShardsStay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster         string
		gone            bool
		policy          addonsv1.DeletionPolicy
		selects         labels.Selector
		elsewhere, held bool
		stale           bool
	}{
		"of another shard":                      {cluster: "b", selects: labels.Everything(), elsewhere: true, held: true},
		"of another shard, not wanted":          {cluster: "b", selects: labels.Nothing(), elsewhere: true, held: true},
		"of another shard, to be let go":        {cluster: "b", selects: labels.Nothing(), policy: addonsv1.DeletionPolicyOrphan, elsewhere: true},
		"of another shard, wanted, with Orphan": {cluster: "b", selects: labels.Everything(), policy: addonsv1.DeletionPolicyOrphan, elsewhere: true, held: true},
		"just come into the shard":              {cluster: "a", selects: labels.Everything(), stale: true},
		"gone":                                  {gone: true, selects: labels.Everything()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, c, release := shardedObjects("a", tc.cluster, "a")
			h.Spec.DeletionPolicy = tc.policy
			objects := []client.Object{h, release}
			if !tc.gone {
				objects = append(objects, c)
			}
			_, live := shardStores(t, "a", objects...)
			cached, _ := shardStores(t, "a", h, release)
			r := &helmOpReconciler{client: cached, live: live, shard: "a", now: time.Now}
			scope := &helmOpScope{helmOp: h}
			err := r.addUnlisted(t.Context(), scope, tc.selects, map[client.ObjectKey]*addonsv1.HelmOpRelease{clusterKey(release): release})
			if err != nil || len(scope.clusters) != 1 {
				t.Fatal(scope.clusters, err)
			}
			got := scope.clusters[0]
			planned, err := plannedCluster(got, 0, h.Spec.DeletionPolicy, nil)
			if err != nil {
				t.Fatal(err)
			}
			if (got.elsewhere != "") != tc.elsewhere || planned.Paused != tc.held || scope.stale != tc.stale {
				t.Errorf("elsewhere %q, held %v, stale %v", got.elsewhere, planned.Paused, scope.stale)
			}
			if !scope.stale && planned.Gone != tc.gone {
				t.Errorf("gone %v", planned.Gone)
			}
			summary := summarize(scope)
			if ready := readyCondition(scope, summary); tc.held && !strings.Contains(whyElsewhere(summary), `"b"`) {
				t.Errorf("it says %+v", ready)
			}
		})
	}
}

// TestUnlistedClustersCostLittle counts the requests for Clusters that the cache does not show: that one of them is gone must not read all
// Clusters of other shards.
func TestUnlistedClustersCostLittle(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gone, elsewhere, others int
		lists, maxGets          int
	}{
		"one is gone":            {gone: 1, others: 20, maxGets: 2},
		"few are elsewhere":      {elsewhere: 5, others: 20, maxGets: 5},
		"a namespace has gone":   {elsewhere: maxAskedSingly + 1, lists: 1},
		"as many as are few":     {elsewhere: maxAskedSingly, maxGets: maxAskedSingly},
		"a few of all are known": {elsewhere: 1, others: 2 * maxAskedSingly, maxGets: 1},
	} {
		h, _, _ := shardedObjects("a", "a", "a")
		var objects []client.Object
		children := map[client.ObjectKey]*addonsv1.HelmOpRelease{}
		for i := range tc.gone + tc.elsewhere + tc.others {
			_, c, release := shardedObjects("a", "b", "a")
			c.Name = fmt.Sprint("c", i)
			release.Spec.ClusterRef.Name = c.Name
			if i < tc.gone+tc.elsewhere {
				children[clusterKey(release)] = release
			}
			if i >= tc.gone {
				objects = append(objects, c)
			}
		}
		cached, live := shardStores(t, "a", objects...)
		lists, gets := 0, 0
		counting := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
				gets++
				return c.Get(ctx, key, obj, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				lists++
				return c.List(ctx, list, options...)
			},
		})
		r := &helmOpReconciler{client: cached, live: counting, shard: "a", now: time.Now}
		scope := &helmOpScope{helmOp: h}
		if err := r.addUnlisted(t.Context(), scope, labels.Everything(), children); err != nil {
			t.Fatal(err)
		}
		elsewhere := 0
		for _, c := range scope.clusters {
			if c.elsewhere != "" {
				elsewhere++
			}
		}
		if len(scope.clusters) != tc.gone+tc.elsewhere || elsewhere != tc.elsewhere {
			t.Errorf("%s: %d Clusters, %d of them elsewhere", name, len(scope.clusters), elsewhere)
		}
		if lists != tc.lists || gets > tc.maxGets {
			t.Errorf("%s: %d lists and %d reads", name, lists, gets)
		}
	}
}

func whyElsewhere(s fleetSummary) string { return s.whyElsewhere }

// TestWhatIsElsewhereIsLookedAtAgain holds that a release which waits for a Cluster of another shard finds out in time that this is gone: no event
// tells it.
func TestWhatIsElsewhereIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	_, _, release := shardedObjects("a", "b", "a")
	r := &releaseReconciler{written: newWrittenGenerations(), drifts: newDriftMemories(), sightings: newSightings(1), watcher: forgettingWatcher{forgetting: &forgetting{}}}
	scope := &releaseScope{release: release, elsewhere: "it is of shard b"}
	if again := r.leaveElsewhere(scope).RequeueAfter; again <= 0 || again > 2*elsewhereRetry {
		t.Errorf("looked at again after %s", again)
	}
	release.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if again := r.leaveElsewhere(scope).RequeueAfter; again <= 0 || again > 2*downRetry {
		t.Errorf("one that waits for its end is looked at again after %s", again)
	}
}
