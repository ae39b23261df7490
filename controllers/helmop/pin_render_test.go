// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/revisionstore"
)

// brokenReader fails for the objects of templates and values while err is set.
type brokenReader struct {
	client.Reader
	err error
}

func (r *brokenReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	if r.err != nil {
		return r.err
	}
	return r.Reader.Get(ctx, key, obj, options...)
}

// TestPinIsNotRefusedByPassingErrors pins two releases to HelmOp revision 1, whose values are in a Secret. A transient
// error must not refuse a pin, and the pin must be tried again. Other errors must refuse the pins.
func TestPinIsNotRefusedByPassingErrors(t *testing.T) {
	t.Parallel()
	unavailable := apierrors.NewServiceUnavailable("try again")
	missing := apierrors.NewNotFound(corev1.Resource("secrets"), "values")
	for name, tc := range map[string]struct {
		// ofCluster is the error for the objects of the Cluster. ofValues is the error for the Secret.
		ofCluster, ofValues error
		pin                 string
		// refused is the reason why the pin is refused; empty if it is not refused.
		refused   string
		isPending bool
		// isCarriedOut is true if the release already has the revision, although the revision cannot be rendered.
		isCarriedOut bool
		requeue      time.Duration
	}{
		"readable":                            {pin: "1"},
		"a kind is read for the first time":   {pin: "1", ofCluster: kindcache.ErrPending, isPending: true},
		"an object of the Cluster":            {pin: "1", ofCluster: unavailable, requeue: requeue.ObjectReadRetry},
		"values of the revision":              {pin: "1", ofValues: unavailable, requeue: requeue.ObjectReadRetry},
		"values that are missing":             {pin: "1", ofValues: missing, refused: "cannot be rendered for this Cluster"},
		"the revision that it has":            {pin: "1", ofCluster: unavailable, isCarriedOut: true},
		"no number, with unreadable objects":  {pin: "x", ofCluster: unavailable, refused: "is not the number"},
		"no revision, with unreadable values": {pin: "9", ofValues: unavailable, refused: "there is no HelmOp revision 9"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := controllertest.NewReleaseBench(t)
			scope := &helmOpScope{helmOp: b.HelmOp, revisions: b.Revisions}
			revision := b.Revisions[0]
			revision.Spec.Artifact = &addonsv1.ResolvedArtifact{Digest: "a"}
			revision.Spec.HelmOp.ValuesFrom = []addonsv1.ValuesReference{{Kind: "Secret", Name: "values", Key: "values.yaml"}}
			c := b.Client()
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: b.HelmOp.Namespace, Name: "values"},
				Data: map[string][]byte{"values.yaml": []byte("a: 1")}}
			if err := c.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			values, objects := &brokenReader{Reader: c}, &brokenReader{Reader: c, err: tc.ofCluster}
			newReconciler := func() *Reconciler {
				return &Reconciler{client: c, now: time.Now,
					renderer: render.New(references.NewReader(values, values), clusterview.NewReader(objects, objects))}
			}
			compiled, err := newReconciler().compileRevision(t.Context(), revisionstore.WithRevision(b.HelmOp, revision),
				revisionstore.ArtifactsOf(revision))
			if err != nil {
				t.Fatal(err)
			}
			revision.Spec.Digest, values.err = compiled.digest, tc.ofValues
			if tc.ofCluster != nil {
				b.Cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{
					APIGroup: "infrastructure.example", Kind: "ExampleCluster", Name: "one"}
			}
			object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(b.Cluster)
			if err != nil {
				t.Fatal(err)
			}
			object["kind"] = "Cluster"
			b.Release.Spec.Rollout.Revision = 2
			if tc.isCarriedOut {
				b.Release.Spec.Rollout.Revision = 1
			}
			b.Release.Annotations = map[string]string{addonsv1.PinnedRevisionAnnotation: tc.pin}
			b.Cluster.Status.Initialization.ControlPlaneInitialized = new(true)
			for range 2 {
				scope.clusters = append(scope.clusters, &clusterScope{name: "one", key: client.ObjectKeyFromObject(b.Cluster),
					cluster: b.Cluster, object: &unstructured.Unstructured{Object: object}, selected: true, child: b.Release})
			}

			if err := newReconciler().render(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			isRetried := tc.isPending || tc.requeue > 0
			for _, cluster := range scope.clusters {
				if refused := cluster.pinErr; (refused != nil) != (tc.refused != "") ||
					refused != nil && !strings.Contains(refused.Error(), tc.refused) {
					t.Errorf("refused: %v, want %q", refused, tc.refused)
				}
				isFinal := cluster.pinErr != nil ||
					cluster.err != nil && !failures.Of(cluster.err, failures.Planning).Passes
				if (cluster.err != nil) != isRetried || !tc.isCarriedOut && isFinal != (tc.refused != "") ||
					isRetried && !errors.Is(cluster.err, render.ErrObjectRead) {
					t.Errorf("error: %v, final: %t", cluster.err, isFinal)
				}
				if (cluster.pinned != nil) != (tc.refused == "" && !isRetried && !tc.isCarriedOut) {
					t.Errorf("pinned: %+v", cluster.pinned)
				}
			}
			if scope.pending != tc.isPending || scope.requeueAfter != tc.requeue {
				t.Errorf("pending: %t, the next pass is in %s", scope.pending, scope.requeueAfter)
			}
		})
	}
}
