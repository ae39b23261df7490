// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package deletionintent

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

func readerOf(c client.Client) *Reader {
	return &Reader{Live: c, Renderer: render.New(references.NewReader(c, c), clusterview.NewReader(c, c))}
}

// TestIntentByRevision checks that the assigned HelmOp revision decides whether a release is kept, unless an
// annotation names a revision that replaces it. During and after a rollout, both revisions may differ from the current
// spec of the HelmOp.
func TestIntentByRevision(t *testing.T) {
	t.Parallel()
	replaced := func(number string) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			b.Release.Annotations = map[string]string{addonsv1.ReplacedByRevisionAnnotation: number}
		}
	}
	// given returns a release that is replaced by a revision in a phase.
	given := func(number string, phase addonsv1.RolloutPhase) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			replaced(number)(b)
			b.Revisions[1].Status.Phase = phase
		}
	}
	// once returns a release that was installed once and is replaced by a revision with a strategy.
	once := func(strategy addonsv1.ReconcileStrategy) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			replaced("2")(b)
			b.Release.Annotations[addonsv1.InstalledOnceAnnotation] = "true"
			b.Revisions[1].Spec.HelmOp.ReconcileStrategy = strategy
		}
	}
	// deleted returns a release of a HelmOp under deletion.
	deleted := func(change func(*controllertest.ReleaseBench)) func(*controllertest.ReleaseBench) {
		return func(b *controllertest.ReleaseBench) {
			b.HelmOp.DeletionTimestamp, b.HelmOp.Finalizers = new(metav1.Now()), []string{addonsv1.HelmOpFinalizer}
			change(b)
		}
	}
	ownerless := func(b *controllertest.ReleaseBench) {
		b.Release.Name, b.Release.OwnerReferences = apiutil.ChildName("calico", apiutil.ClusterTitle(b.Release)), nil
	}
	for name, test := range map[string]struct {
		change func(*controllertest.ReleaseBench)
		want   Intent
	}{
		"an earlier revision": {nil, Keep},
		"a revision that does not exist": {func(b *controllertest.ReleaseBench) { b.Revisions = b.Revisions[1:] },
			Keep},
		"no known revision": {func(b *controllertest.ReleaseBench) { b.Release.Spec.Rollout = nil },
			Replace},
		"replaced by another release":                  {replaced("2"), Replace},
		"replaced by a revision with the same release": {replaced("1"), Keep},
		"replaced by a revision that does not exist":   {replaced("9"), Replace},
		"an annotation that is not a number":           {replaced("x"), Keep},
		"replaced by a revision that was rolled back":  {given("2", addonsv1.RolloutPhaseRolledBack), Keep},
		"replaced by a revision that was aborted":      {given("2", addonsv1.RolloutPhaseAborted), Keep},
		"replaced by a revision that is rolled out":    {given("2", addonsv1.RolloutPhaseComplete), Replace},
		"replaced by a revision that was superseded":   {given("2", addonsv1.RolloutPhaseSuperseded), Replace},
		"replaced by a revision that was superseded by the former spec": {func(b *controllertest.ReleaseBench) {
			given("2", addonsv1.RolloutPhaseSuperseded)(b)
			b.HelmOp.Spec.Release.Name = b.Release.Spec.Release.Name
		}, Keep},
		"installed once, replaced by a revision that installs once": {once(addonsv1.ReconcileStrategyInstallOnce), Keep},
		"installed once, replaced by a continuous revision":         {once(addonsv1.ReconcileStrategyContinuous), Replace},
		"the HelmOp is deleted":                                     {deleted(func(*controllertest.ReleaseBench) {}), Uninstall},
		"the HelmOp is deleted with the propagation policy Orphan": {deleted(func(b *controllertest.ReleaseBench) {
			b.HelmOp.Finalizers = append(b.HelmOp.Finalizers, metav1.FinalizerOrphanDependents)
		}), Orphan},
		"garbage collection removed the owner of a deleted HelmOp": {deleted(ownerless), Orphan},
		"a deleted HelmOp of another release": {deleted(func(b *controllertest.ReleaseBench) {
			b.Release.OwnerReferences = nil
		}), Uninstall},
		"no owner, and the HelmOp is not deleted": {ownerless, Uninstall},
		"the namespace is not selected": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "b"}
		}, Uninstall},
		"the namespace is selected": {func(b *controllertest.ReleaseBench) {
			b.HelmOp.Spec.ClusterNamespaces.NamespaceSelector.MatchLabels = map[string]string{"team": "a"}
		}, Keep},
		"clusterNamespaces is not set": {func(b *controllertest.ReleaseBench) { b.HelmOp.Spec.ClusterNamespaces = nil },
			Uninstall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			if test.change != nil {
				test.change(b)
			}
			if got, err := readerOf(b.Client()).Of(t.Context(), b.Release); got != test.want || err != nil {
				t.Errorf("intent %v, %v; want %v", got, err, test.want)
			}
		})
	}
}

// TestIntentOf checks why a HelmOpRelease is under deletion according to the API server. An uninstallation must
// not depend on a stale cache.
func TestIntentOf(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one",
		Labels: map[string]string{"cni": "calico"}}}
	helmOp := func(change func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
		h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "calico", UID: "u",
			Finalizers: []string{addonsv1.HelmOpFinalizer}}}
		h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "calico"}}
		h.Spec.Release = addonsv1.ReleaseTemplate{Name: "calico-{{ .Cluster.metadata.name }}", Namespace: "tigera"}
		if change != nil {
			change(h)
		}
		return h
	}
	now := metav1.Now()
	tests := map[string]struct {
		helmOp  *addonsv1.HelmOp
		cluster *clusterv1.Cluster
		want    Intent
		wantErr bool
	}{
		"deleted by a user":          {helmOp(nil), cluster, Keep, false},
		"the HelmOp has another UID": {helmOp(func(h *addonsv1.HelmOp) { h.UID = "other" }), cluster, Keep, false},
		"the HelmOp is gone":         {nil, cluster, Unknown, false},
		"the HelmOp is being deleted": {helmOp(func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &now }), cluster,
			Uninstall, false},
		"the Cluster is not selected": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.ClusterSelector.MatchLabels["cni"] = "x" }),
			cluster, Uninstall, false},
		"the Cluster is not selected by a HelmOp with another UID": {helmOp(func(h *addonsv1.HelmOp) {
			h.UID, h.Spec.ClusterSelector.MatchLabels["cni"] = "other", "x"
		}), cluster, Unknown, false},
		"another name is desired": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "calico" }), cluster,
			Replace, false},
		"another namespace is desired": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Namespace = "x" }), cluster,
			Replace, false},
		"the selector is not valid": {helmOp(func(h *addonsv1.HelmOp) {
			h.Spec.ClusterSelector.MatchLabels["cni"] = "-"
		}), cluster, Uninstall, true},
		"the name cannot be rendered": {helmOp(func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "{{ .Cluster.none }}" }),
			cluster, Uninstall, true},
		"the Cluster cannot be read": {helmOp(nil), nil, Uninstall, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			builder := fake.NewClientBuilder().WithScheme(scheme)
			for _, obj := range []client.Object{tc.helmOp, tc.cluster} {
				switch o := obj.(type) {
				case *addonsv1.HelmOp:
					if o != nil {
						builder.WithObjects(o)
					}
				case *clusterv1.Cluster:
					if o != nil {
						builder.WithObjects(o.DeepCopy())
					}
				}
			}
			c := builder.Build()
			release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "child"}}
			release.Spec.ClusterRef.Name = "one"
			release.Spec.Release = addonsv1.ReleaseIdentity{Name: "calico-one", Namespace: "tigera"}
			release.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(helmOp(nil),
				addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}
			got, err := readerOf(c).Of(t.Context(), release)
			if got != tc.want || (err != nil) != tc.wantErr {
				t.Errorf("Of = %v, %v; want %v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

// TestIntentInDeletedNamespace deletes the namespace of a HelmOp. Kubernetes may delete the HelmOpRelease before the
// HelmOp. The HelmOp still selects the Cluster, but the release must be uninstalled when the HelmOp is deleted, too.
func TestIntentInDeletedNamespace(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	for name, tc := range map[string]struct {
		namespace, helmOp *metav1.Time
		want              Intent
	}{
		"nothing is deleted":                   {want: Keep},
		"the namespace is deleted":             {namespace: &now, want: Undecided},
		"the namespace and HelmOp are deleted": {namespace: &now, helmOp: &now, want: Uninstall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			b.HelmOp.DeletionTimestamp, b.HelmOp.Finalizers = tc.helmOp, []string{addonsv1.HelmOpFinalizer}
			c := b.Client()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Release.Namespace,
				Finalizers: []string{"kubernetes"}}}
			if err := c.Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			if tc.namespace != nil {
				if err := c.Delete(t.Context(), namespace); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := readerOf(c).Of(t.Context(), b.Release); got != tc.want || err != nil {
				t.Errorf("intent %v, %v; want %v", got, err, tc.want)
			}
		})
	}
}

func TestIntentOfManagementRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOp)
		want   Intent
	}{
		"unchanged": {func(*addonsv1.HelmOp) {}, Keep},
		"the HelmOp now selects Clusters": {func(h *addonsv1.HelmOp) {
			h.Spec.ManagementCluster, h.Spec.ClusterSelector = nil, &metav1.LabelSelector{}
		}, Uninstall},
		"another name is desired": {func(h *addonsv1.HelmOp) { h.Spec.Release.Name = "other" }, Replace},
	} {
		helmOp := controllertest.ManagementHelmOp("a")
		tc.change(helmOp)
		reader := readerOf(controllertest.ManagementClient(t, helmOp))
		if intent, err := reader.Of(t.Context(), controllertest.ManagementRelease(helmOp)); err != nil || intent != tc.want {
			t.Errorf("%s: intent %d, %v", name, intent, err)
		}
	}
}
