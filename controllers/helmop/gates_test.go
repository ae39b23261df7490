// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// plainCluster returns the scope of a Cluster with the labels of the HelmOps that select it.
func plainCluster(name string, labels ...string) *clusterScope {
	object := apiutil.NewCluster()
	object.SetNamespace("n")
	object.SetName(name)
	labelled := map[string]string{}
	for _, label := range labels {
		labelled[label] = "yes"
	}
	object.SetLabels(labelled)
	return &clusterScope{name: name, key: client.ObjectKeyFromObject(object), object: object, selected: true}
}

func TestCheckDependencies(t *testing.T) {
	t.Parallel()
	in := func(cluster, helmOp string, change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
		return controllertest.ReadyRelease(helmOp, func(r *addonsv1.HelmOpRelease) {
			r.Name, r.Spec.ClusterRef.Name = helmOp+"-"+cluster, cluster
			if change != nil {
				change(r)
			}
		})
	}
	onApp := func(h *addonsv1.HelmOp) { h.Spec.DependsOn = controllertest.DependingOn("app") }
	failed := func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, addonsv1.InstallFailedReason, "no room") }
	tests := map[string]struct {
		dependencies []addonsv1.Dependency
		objects      []client.Object
		reason       string
		blocked      [3]string // the cause for the Clusters one, two and three
	}{
		"no dependencies": {},
		"per Cluster": {
			dependencies: controllertest.DependingOn("cni", "dns"),
			objects: []client.Object{controllertest.UpToDateHelmOp(t, "cni", nil), controllertest.UpToDateHelmOp(t, "dns", nil),
				in("one", "cni", nil), in("one", "dns", nil),
				in("two", "cni", failed), in("two", "dns", nil), in("three", "cni", nil)},
			blocked: [3]string{"", "the release of HelmOp cni is not Ready: InstallFailed: No room",
				"HelmOp dns does not select Cluster three"},
		},
		"cycle": {
			dependencies: controllertest.DependingOn("cni"),
			objects:      []client.Object{controllertest.UpToDateHelmOp(t, "cni", onApp), in("one", "cni", nil)},
			reason:       addonsv1.DependencyCycleReason,
			blocked:      [3]string{"app → cni → app", "app → cni → app", "app → cni → app"},
		},
		"malformed": {
			dependencies: []addonsv1.Dependency{{Name: "cni", ReadyExpr: "1 +"}}, reason: addonsv1.InvalidDependencyReason,
			blocked: [3]string{"readyExpr for HelmOp cni", "readyExpr for HelmOp cni", "readyExpr for HelmOp cni"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := controllertest.UpToDateHelmOp(t, "app", func(h *addonsv1.HelmOp) { h.Spec.DependsOn = tc.dependencies })
			r := &Reconciler{client: controllertest.StoreOf(t, append(tc.objects, app)...)}
			scope := &helmOpScope{helmOp: app, clusters: []*clusterScope{
				plainCluster("one", "cni", "dns"), plainCluster("two", "cni", "dns"), plainCluster("three", "cni"),
				{name: "missing", key: client.ObjectKey{Namespace: "n", Name: "missing"}},
			}}
			if err := r.checkDependencies(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if (scope.dependencyErr != nil) != (tc.reason != "") ||
				scope.dependencyErr != nil && scope.dependencyErr.Reason != tc.reason {
				t.Errorf("error %+v, want %q", scope.dependencyErr, tc.reason)
			}
			for i, want := range tc.blocked {
				if got := scope.clusters[i].blocked; (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("%s is blocked by %q, want %q", scope.clusters[i].name, got, want)
				}
			}
		})
	}
}

// staticLists lists objects from memory without copies, like a cache.
type staticLists struct {
	client.Client
	helmOps  []addonsv1.HelmOp
	releases map[string][]addonsv1.HelmOpRelease
}

func (s staticLists) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	applied := client.ListOptions{}
	applied.ApplyOptions(options)
	switch list := list.(type) {
	case *addonsv1.HelmOpList:
		list.Items = s.helmOps
	case *addonsv1.HelmOpReleaseList:
		for name, releases := range s.releases {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if applied.LabelSelector.Matches(labels.Set(apiutil.ChildSelector(helmOp))) {
				list.Items = releases
			}
		}
	}
	return nil
}

// BenchmarkCheckDependencies measures a pass over a fleet of 1,000 Clusters with five dependencies.
func BenchmarkCheckDependencies(b *testing.B) {
	for _, expr := range []string{"", "release.status.release.version.startsWith('1.')"} {
		b.Run(fmt.Sprintf("expression=%t", expr != ""), func(b *testing.B) {
			lists := staticLists{releases: map[string][]addonsv1.HelmOpRelease{}}
			app := addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "app"}}
			scope := &helmOpScope{helmOp: &app}
			for c := range 1000 {
				scope.clusters = append(scope.clusters, plainCluster(fmt.Sprintf("c%d", c)))
			}
			for d := range 5 {
				name := fmt.Sprintf("d%d", d)
				app.Spec.DependsOn = append(app.Spec.DependsOn, addonsv1.Dependency{Name: name, ReadyExpr: expr})
				lists.helmOps = append(lists.helmOps, *controllertest.UpToDateHelmOp(b, name, nil))
				for c := range 1000 {
					lists.releases[name] = append(lists.releases[name],
						*controllertest.ReadyRelease(name, func(r *addonsv1.HelmOpRelease) {
							r.Spec.ClusterRef.Name = fmt.Sprintf("c%d", c)
							r.UID = types.UID(fmt.Sprintf("%s-%d", name, c))
							r.Status.Inventory = &addonsv1.Inventory{Kinds: []addonsv1.InventoryKind{{APIVersion: "apps/v1",
								Kind: "Deployment", Objects: make([]string, 20)}}}
						}))
				}
			}
			lists.helmOps = append(lists.helmOps, app)
			r := &Reconciler{client: lists}
			for b.Loop() {
				if err := r.checkDependencies(b.Context(), scope); err != nil || scope.clusters[999].blocked != "" {
					b.Fatal(err, scope.clusters[999].blocked)
				}
			}
		})
	}
}
