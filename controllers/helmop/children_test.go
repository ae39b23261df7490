// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestNeedsNoRepair checks that needsNoRepair is true if and only if a repair would not change the child.
func TestNeedsNoRepair(t *testing.T) {
	t.Parallel()
	owner := func(change func(*metav1.OwnerReference)) func(*addonsv1.HelmOpRelease) {
		return func(c *addonsv1.HelmOpRelease) { change(&c.OwnerReferences[0]) }
	}
	changes := map[string]func(*addonsv1.HelmOpRelease){
		"unchanged":                      func(*addonsv1.HelmOpRelease) {},
		"another label":                  func(c *addonsv1.HelmOpRelease) { c.Labels["team"] = "red" },
		"no labels":                      func(c *addonsv1.HelmOpRelease) { c.Labels = nil },
		"no label of the HelmOp":         func(c *addonsv1.HelmOpRelease) { delete(c.Labels, addonsv1.HelmOpNameLabel) },
		"a label of another":             func(c *addonsv1.HelmOpRelease) { c.Labels[addonsv1.HelmOpNameLabel] = "other" },
		"no label of the Cluster":        func(c *addonsv1.HelmOpRelease) { delete(c.Labels, clusterv1.ClusterNameLabel) },
		"another watch filter":           func(c *addonsv1.HelmOpRelease) { c.Labels[clusterv1.WatchLabel] = "red" },
		"no watch filter":                func(c *addonsv1.HelmOpRelease) { delete(c.Labels, clusterv1.WatchLabel) },
		"no owner":                       func(c *addonsv1.HelmOpRelease) { c.OwnerReferences = nil },
		"owner with the UID of a backup": owner(func(o *metav1.OwnerReference) { o.UID = "before" }),
		"an owner of another name":       owner(func(o *metav1.OwnerReference) { o.Name = "before" }),
		"another version": owner(func(o *metav1.OwnerReference) {
			o.APIVersion = addonsv1.GroupVersion.Group + "/v1"
		}),
		"owner without blockOwnerDeletion": owner(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = nil }),
		"marked for replacement": func(c *addonsv1.HelmOpRelease) {
			c.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "7"}
		},
		"marked for replacement, under deletion": func(c *addonsv1.HelmOpRelease) {
			c.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "7"}
			c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1e9, 0)))
		},
		"another annotation": func(c *addonsv1.HelmOpRelease) { c.Annotations = map[string]string{"note": "x"} },
	}
	untouched := []string{"unchanged", "another label", "marked for replacement, under deletion", "another annotation"}
	for _, names := range [][2]string{{"cni", "one"}, {strings.Repeat("h", 70), strings.Repeat("c", 70)}} {
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			t.Run(name+" of "+names[0], func(t *testing.T) {
				t.Parallel()
				helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{
					Namespace: "fleet", Name: names[0], UID: "now", Labels: map[string]string{clusterv1.WatchLabel: "blue"},
				}}
				r := &Reconciler{client: controllertest.StoreOf(t)}
				child := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: names[1]})
				child.OwnerReferences = nil
				if err := r.own(helmOp, child); err != nil {
					t.Fatal(err)
				}
				changes[name](child)
				metadata, _, err := r.repairedMetadata(helmOp, child)
				if err != nil {
					t.Fatal(err)
				}
				if same, known := equality.Semantic.DeepEqual(child.ObjectMeta, metadata),
					needsNoRepair(helmOp, child); known != same || known != slices.Contains(untouched, name) {
					t.Errorf("needs no repair: %t; a repair changes nothing: %t", known, same)
				}
			})
		}
	}
}

// TestFirstAssignedAtEndsWithTheRollout checks that a child gets the time of its creation, and keeps it until the
// rollout reaches the child. An update does not set the time on a child without it: the release may be older.
func TestFirstAssignedAtEndsWithTheRollout(t *testing.T) {
	t.Parallel()
	at := controllertest.Noon.UTC().Format(time.RFC3339)
	for name, tc := range map[string]struct {
		// without is true for a child without the time, and same is true if the content of the release stays the same.
		// own is true if the content is the same under the present revision of the child.
		without, same, own bool
		step               rollout.Step
		want               string
	}{
		"a change of the Cluster itself":   {step: rollout.Step{Revision: 1}, want: at},
		"an identical revision":            {same: true, step: rollout.Step{Revision: 2}, want: at},
		"identical, with other labels":     {own: true, step: rollout.Step{Revision: 2}, want: at},
		"a revision for a new Cluster":     {step: rollout.Step{Revision: 2, Joined: true}, want: at},
		"its turn":                         {step: rollout.Step{Revision: 1, Adopts: true}},
		"another revision":                 {step: rollout.Step{Revision: 2}},
		"a return":                         {step: rollout.Step{Revision: 2, Returned: true}, want: at},
		"a pin":                            {step: rollout.Step{Revision: 2, Pinned: true}},
		"a child of an earlier version":    {without: true, step: rollout.Step{Revision: 1}},
		"an earlier version, another step": {without: true, step: rollout.Step{Revision: 2, Joined: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			c := b.Client()
			system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
			if err := c.Create(t.Context(), system); err != nil {
				t.Fatal(err)
			}
			now := controllertest.Noon
			r := &Reconciler{client: c, live: c, now: func() time.Time { return now },
				renderer: render.New(nil, clusterview.NewReader(c, c))}
			scope := &clusterScope{name: "two"}
			spec := *b.Release.Spec.DeepCopy()
			spec.ClusterRef.Name = scope.name
			if err := r.createChild(t.Context(), b.HelmOp, scope, spec); err != nil {
				t.Fatal(err)
			}
			if scope.child.Annotations[addonsv1.FirstAssignedAnnotation] != at {
				t.Fatalf("created with the annotations %v", scope.child.Annotations)
			}
			if tc.without {
				scope.child = b.Release.DeepCopy()
			}
			now, scope.step = now.Add(time.Hour), tc.step
			changed := *scope.child.Spec.DeepCopy()
			changed.DeletionPolicy = addonsv1.DeletionPolicyOrphan
			if !tc.same {
				changed.ValuesDigest = "changed"
			}
			if scope.own = b.Release.Spec.DeepCopy(); tc.own {
				scope.own = changed.DeepCopy()
			}
			if err := r.updateChild(t.Context(), b.HelmOp, scope, changed); err != nil {
				t.Fatal(err)
			}
			stored := &addonsv1.HelmOpRelease{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(scope.child), stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.Annotations[addonsv1.FirstAssignedAnnotation]; got != tc.want ||
				stored.Spec.DeletionPolicy != changed.DeletionPolicy {
				t.Errorf("first assigned at %q, want %q, spec %+v", got, tc.want, stored.Spec)
			}
		})
	}
}

// TestKeptChildLosesReplacedAnnotation checks that a child that stays loses the annotation for replacement. A child
// under deletion must keep it.
func TestKeptChildLosesReplacedAnnotation(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*Reconciler, *controllertest.ReleaseBench, *addonsv1.HelmOpRelease) error{
		"updated": func(r *Reconciler, b *controllertest.ReleaseBench, child *addonsv1.HelmOpRelease) error {
			return r.updateChild(b.Context(), b.HelmOp, &clusterScope{child: child}, child.Spec)
		},
		"repaired": func(r *Reconciler, b *controllertest.ReleaseBench, child *addonsv1.HelmOpRelease) error {
			return r.repairChild(b.Context(), b.HelmOp, child)
		},
	}
	for name, way := range ways {
		for _, isEnding := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, under deletion: %t", name, isEnding), func(t *testing.T) {
				t.Parallel()
				b := controllertest.NewReleaseBench(t)
				b.Release.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
				b.Release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: "2", "other": "stays"}
				c := b.Client()
				r := &Reconciler{client: c, live: c, now: time.Now, renderer: render.New(nil, clusterview.NewReader(c, c))}
				read := func() *addonsv1.HelmOpRelease {
					child := &addonsv1.HelmOpRelease{}
					if err := c.Get(t.Context(), client.ObjectKeyFromObject(b.Release), child); err != nil {
						t.Fatal(err)
					}
					return child
				}
				cached := read()
				if isEnding {
					if err := c.Delete(t.Context(), read()); err != nil {
						t.Fatal(err)
					}
					if err := way(r, b, cached); !apierrors.IsConflict(err) {
						t.Errorf("with a stale cache: %v, want a conflict", err)
					}
					cached = read()
				}
				if err := way(r, b, cached); err != nil {
					t.Fatal(err)
				}
				child := read()
				if _, marked := apiutil.ReplacedBy(child); marked != isEnding || child.Annotations["other"] != "stays" ||
					!metav1.IsControlledBy(child, b.HelmOp) {
					t.Errorf("annotations %v, owners %v", child.Annotations, child.OwnerReferences)
				}
			})
		}
	}
}

func TestRepairChildCopiesWatchFilterLabel(t *testing.T) {
	t.Parallel()
	watched := func(value string) map[string]string {
		if value == "" {
			return nil
		}
		return map[string]string{clusterv1.WatchLabel: value}
	}
	for _, tc := range []struct{ name, child, helmOp string }{
		{name: "unchanged", child: "blue", helmOp: "blue"},
		{name: "added", helmOp: "blue"},
		{name: "changed", child: "blue", helmOp: "red"},
		{name: "removed", child: "blue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			if err := addonsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u",
				Labels: watched(tc.helmOp)}}
			child := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", Labels: watched(tc.child)}}
			r := &Reconciler{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(child, helmOp.DeepCopy()).Build()}
			r.live = r.client
			if err := r.repairChild(t.Context(), helmOp, child); err != nil {
				t.Fatal(err)
			}
			stored := &addonsv1.HelmOpRelease{}
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(child), stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.Labels[clusterv1.WatchLabel]; got != tc.helmOp {
				t.Errorf("the child has the label %q, want %q", got, tc.helmOp)
			}
		})
	}
}

// TestChildrenAreFoundByIndex checks that a pass finds the releases of its HelmOp without comparing the labels of all
// releases in the namespace.
func TestChildrenAreFoundByIndex(t *testing.T) {
	t.Parallel()
	helmOp := controllertest.UpToDateHelmOp(t, strings.Repeat("long", 20), nil)
	child := func(of *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
		return controllertest.ReadyRelease(of.Name, func(r *addonsv1.HelmOpRelease) {
			r.Name = apiutil.ChildName(of.Name, "one")
		})
	}
	other := controllertest.UpToDateHelmOp(t, "other", nil)
	store := controllertest.StoreOf(t, helmOp, other, child(helmOp), child(other))
	r := &Reconciler{client: interceptor.NewClient(store.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			asked := client.ListOptions{}
			asked.ApplyOptions(options)
			if asked.LabelSelector != nil || asked.FieldSelector == nil {
				t.Errorf("%T is listed with the labels %v", list, asked.LabelSelector)
			}
			return c.List(ctx, list, options...)
		},
	})}
	children, err := r.children(t.Context(), helmOp)
	if err != nil || len(children) != 1 || children[0].Name != child(helmOp).Name {
		t.Errorf("children %v, error %v", children, err)
	}
	byCluster, err := r.releasesByCluster(t.Context(), helmOp.Namespace, helmOp.Name)
	if err != nil || len(byCluster) != 1 {
		t.Errorf("releases %v, error %v", byCluster, err)
	}
	if known := apiutil.ChildrenOfHelmOp(t.Context(), r.client, helmOp); len(known) != 1 {
		t.Errorf("releases %v", known)
	}
}
