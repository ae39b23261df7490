// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// crossNamespace has a HelmOp that selects the Clusters one and two in several namespaces, and has a release for each
// Cluster one. broken has the namespaces in which the access check fails. reviews counts the access checks by
// namespace.
type crossNamespace struct {
	*Reconciler
	helmOp  *addonsv1.HelmOp
	broken  map[string]bool
	reviews map[string]int
	clock   time.Time
}

func newCrossNamespace(t *testing.T, namespaces ...string) *crossNamespace {
	t.Helper()
	r := &crossNamespace{broken: map[string]bool{}, reviews: map[string]int{}, clock: controllertest.Noon}
	r.helmOp = &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "platform", Name: "calico", UID: "u"},
		Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	r.helmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{AuthorizationServiceAccountName: "installer"}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, corev1.AddToScheme,
		authorizationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := controllertest.WithIndexes(fake.NewClientBuilder().WithScheme(scheme))
	for _, namespace := range namespaces {
		builder.WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for _, name := range []string{"one", "two"} {
			builder.WithObjects(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		ref := addonsv1.ClusterReference{Namespace: namespace, Name: "one"}
		child := controllertest.ReleaseFor("platform", "", ref)
		child.Name, child.Labels = apiutil.ChildName("calico", apiutil.ClusterTitle(child)), apiutil.ChildSelector(r.helmOp)
		builder.WithObjects(child)
	}
	builder.WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, obj client.Object,
		_ ...client.CreateOption) error {
		review, ok := obj.(*authorizationv1.SubjectAccessReview)
		if !ok {
			return fmt.Errorf("%T is created", obj)
		}
		namespace := review.Spec.ResourceAttributes.Namespace
		r.reviews[namespace]++
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a review without a deadline")
		}
		if r.broken[namespace] {
			return errors.New("the authorizer is unreachable")
		}
		review.Status.Allowed = true
		return nil
	}})
	c := builder.Build()
	guard := selection.NewGuard(c)
	guard.Now = func() time.Time { return r.clock }
	r.Reconciler = &Reconciler{
		client: c, live: c, guard: guard, now: guard.Now, renderer: render.New(nil, clusterview.NewReader(c, c)),
	}
	return r
}

func (r *crossNamespace) selected(t *testing.T) (*helmOpScope, map[string]*clusterScope) {
	t.Helper()
	scope := &helmOpScope{helmOp: r.helmOp}
	if err := r.selectClusters(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*clusterScope{}
	for _, c := range scope.clusters {
		byName[c.name] = c
	}
	return scope, byName
}

// TestUnknownAccessAffectsOnlyItsNamespace checks that a failed access check of one namespace does not affect other
// namespaces. Existing releases must stay.
func TestUnknownAccessAffectsOnlyItsNamespace(t *testing.T) {
	t.Parallel()
	r := newCrossNamespace(t, "good", "bad")
	r.broken["bad"] = true
	scope, clusters := r.selected(t)
	for _, name := range []string{"good/one", "good/two"} {
		if c := clusters[name]; c == nil || c.err != nil || !c.selected {
			t.Errorf("%s is %+v", name, c)
		}
	}
	served := clusters["bad/one"]
	if served == nil || !served.selected || !errors.Is(served.err, selection.ErrAccessUnknown) ||
		failures.Of(served.err, failures.Planning).Invalid || isAccessDenied(served) {
		t.Fatalf("the existing release has %+v", served)
	}
	if reason := reasons.ForRendering(served.err); reason != addonsv1.ObjectReadFailedReason {
		t.Errorf("the reason is %s", reason)
	}
	if c := clusters["bad/two"]; c != nil {
		t.Errorf("a Cluster that may not be accessed is %+v", c)
	}
	if scope.unknownAccess != 2 || scope.denied != 0 || scope.requeueAfter != selection.FailedTTL {
		t.Errorf("%d not known, %d denied, the next pass is in %s", scope.unknownAccess, scope.denied, scope.requeueAfter)
	}
	if r.reviews["bad"] != 1 {
		t.Errorf("reviews %v; a failed review must not be repeated for each Cluster", r.reviews)
	}
	r.clock, r.broken["bad"] = r.clock.Add(selection.FailedTTL+time.Second), false
	if scope, clusters = r.selected(t); scope.unknownAccess != 0 || len(clusters) != 4 || clusters["bad/one"].err != nil {
		t.Errorf("afterwards: %+v", clusters)
	}
}
