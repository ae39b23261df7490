// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

// helmOpIn returns a HelmOp of the namespace platform that selects Clusters with the label cni=yes.
func helmOpIn(name string, change func(*addonsv1.HelmOpSpec)) *addonsv1.HelmOp {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: name}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "yes"}}
	if change != nil {
		change(&helmOp.Spec)
	}
	return helmOp
}

// tenants makes a HelmOp select the namespaces with the label tenant=yes.
func tenants(spec *addonsv1.HelmOpSpec) {
	spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{
		NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tenant": "yes"}}}
}

func malformed(spec *addonsv1.HelmOpSpec) {
	spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
		Operator: "Like"}}}
}

func clusterIn(namespace, cni string) client.Object {
	cluster := apiutil.NewCluster()
	cluster.SetNamespace(namespace)
	cluster.SetName("one")
	cluster.SetLabels(map[string]string{"cni": cni})
	return cluster
}

func managementCluster() client.Object {
	cluster := clusterIn(clusterlink.Management.Namespace, "yes")
	cluster.SetName(clusterlink.Management.Name)
	return cluster
}

func readerOf(t *testing.T, helmOps ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(helmOps...)
	for name, tenant := range map[string]string{"platform": "no", "tenant": "yes", "other": "no"} {
		builder.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"tenant": tenant}}})
	}
	return builder.WithIndex(&addonsv1.HelmOp{}, ClusterNamespacesIndex, func(obj client.Object) []string {
		if obj.(*addonsv1.HelmOp).Spec.ClusterNamespaces == nil {
			return nil
		}
		return []string{"true"}
	}).Build()
}

func TestSelector(t *testing.T) {
	t.Parallel()
	reader := readerOf(t)
	for name, tc := range map[string]struct {
		change           func(*addonsv1.HelmOpSpec)
		cluster          client.Object
		matches, selects bool
	}{
		"own namespace":               {cluster: clusterIn("platform", "yes"), matches: true, selects: true},
		"own namespace, other labels": {cluster: clusterIn("platform", "no")},
		"other namespace":             {cluster: clusterIn("tenant", "yes")},
		"selected namespace": {change: tenants, cluster: clusterIn("tenant", "yes"), matches: true,
			selects: true},
		"selected namespace, other labels": {change: tenants, cluster: clusterIn("tenant", "no")},
		"namespace that is not selected":   {change: tenants, cluster: clusterIn("other", "yes"), matches: true},
		"own namespace, whose labels do not match": {change: tenants, cluster: clusterIn("platform", "yes"), matches: true,
			selects: true},
		"management cluster": {change: func(s *addonsv1.HelmOpSpec) {
			s.ManagementCluster = &addonsv1.ManagementCluster{}
		}, cluster: managementCluster(), matches: true, selects: true},
		"management cluster, without spec.managementCluster": {change: tenants, cluster: managementCluster()},
	} {
		selector, err := SelectorOf(helmOpIn("h", tc.change))
		if err != nil {
			t.Fatal(err)
		}
		selects, err := selector.Selects(t.Context(), reader, tc.cluster)
		if matches := selector.Matches(tc.cluster); err != nil || matches != tc.matches || selects != tc.selects {
			t.Errorf("%s: matches %t, selects %t, err = %v", name, matches, selects, err)
		}
	}
}

// TestSelectsInMissingNamespace checks that a missing Namespace is an error, and not a Namespace that is not selected:
// a release must not be uninstalled because of it.
func TestSelectsInMissingNamespace(t *testing.T) {
	t.Parallel()
	selector, err := SelectorOf(helmOpIn("h", tenants))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := selector.Selects(t.Context(), readerOf(t), clusterIn("missing", "yes")); !apierrors.IsNotFound(err) {
		t.Errorf("err = %v, want NotFound", err)
	}
}

func TestSelectorErrorNamesField(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*addonsv1.HelmOpSpec){
		"spec.clusterSelector: ": malformed,
		"spec.clusterNamespaces.namespaceSelector: ": func(s *addonsv1.HelmOpSpec) {
			tenants(s)
			s.ClusterNamespaces.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a",
				Operator: "Like"}}
		},
	} {
		if _, err := SelectorOf(helmOpIn("h", change)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
}

func TestHelmOpsOf(t *testing.T) {
	t.Parallel()
	own := helmOpIn("own", func(s *addonsv1.HelmOpSpec) { tenants(s) })
	own.Namespace = "tenant"
	near := helmOpIn("near", nil)
	near.Namespace = "tenant"
	reader := readerOf(t, own, near, helmOpIn("roaming", tenants), helmOpIn("stays", nil),
		helmOpIn("malformed", malformed))
	lookup := NewLookup(reader)
	names := func(helmOps []client.ObjectKey, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, helmOp := range helmOps {
			names = append(names, helmOp.Name)
		}
		return strings.Join(names, " ")
	}
	for _, tc := range []struct{ namespace, cni, want string }{
		{"tenant", "yes", "near own roaming"}, {"tenant", "no", ""}, {"other", "yes", ""},
		{"platform", "yes", "roaming stays"},
	} {
		if got := names(lookup.HelmOpsOf(t.Context(), clusterIn(tc.namespace, tc.cni))); got != tc.want {
			t.Errorf("HelmOps of a Cluster in %s with cni=%s: %q, want %q", tc.namespace, tc.cni, got, tc.want)
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"tenant": "yes"}}}
	if got, want := names(lookup.HelmOpsOfNamespace(t.Context(), namespace)), "roaming own"; got != want {
		t.Errorf("HelmOps of the namespace: %q, want %q", got, want)
	}
}

// TestLookupCompilesOncePerGeneration checks that the events of Clusters compile the selector of a HelmOp once, until
// the HelmOp changes or is re-created.
func TestLookupCompilesOncePerGeneration(t *testing.T) {
	t.Parallel()
	helmOp := helmOpIn("h", nil)
	helmOp.UID, helmOp.Generation = "u", 1
	lookup := NewLookup(readerOf(t, helmOp))
	compilations, last := 0, (*Selector)(nil)
	look := func(change func(*addonsv1.HelmOp)) *Selector {
		change(helmOp)
		selector, err := lookup.selectorOf(helmOp)
		if err != nil {
			t.Fatal(err)
		}
		if selector != last {
			compilations, last = compilations+1, selector
		}
		return selector
	}
	for range 100 {
		look(func(h *addonsv1.HelmOp) { h.ResourceVersion += "1" })
	}
	if compilations != 1 {
		t.Errorf("the selector was compiled %d times for 100 events", compilations)
	}
	for name, change := range map[string]func(*addonsv1.HelmOp){
		"new spec": func(h *addonsv1.HelmOp) {
			h.Generation++
			h.Spec.ClusterSelector.MatchLabels["cni"] = "other"
		},
		"re-created":     func(h *addonsv1.HelmOp) { h.UID += "u" },
		"does not exist": func(h *addonsv1.HelmOp) { lookup.Forget(client.ObjectKeyFromObject(h)) },
	} {
		before := compilations
		if look(change); compilations != before+1 {
			t.Errorf("%s: the selector was not compiled again", name)
		}
	}
	if !look(func(*addonsv1.HelmOp) {}).Matches(clusterIn("platform", "other")) {
		t.Error("the selector is out of date")
	}
}
