// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

func TestReportMovable(t *testing.T) {
	object := func(name string, change ...func(*metav1.ObjectMeta)) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		for _, apply := range change {
			apply(&secret.ObjectMeta)
		}
		return secret
	}
	labelled := func(m *metav1.ObjectMeta) { m.Labels = map[string]string{"clusterctl.cluster.x-k8s.io/move": ""} }
	owned := func(apiVersion string) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Any", Name: "any", UID: "1"}}
		}
	}
	for name, tc := range map[string]struct {
		secret     *corev1.Secret
		account    string
		management *addonsv1.ManagementCluster
		want       string
	}{
		"labelled":           {secret: object("values", labelled)},
		"owned by a Cluster": {secret: object("values", owned("cluster.x-k8s.io/v1beta2"))},
		"owned by a HelmOp":  {secret: object("values", owned("addons.cluster.x-k8s.io/v1alpha1"))},
		"owned by another": {secret: object("values", owned("apps/v1")),
			want: "label secret/values clusterctl.cluster.x-k8s.io/move="},
		"not labelled": {secret: object("values"),
			want: "kubectl -n ns label secret/values clusterctl.cluster.x-k8s.io/move="},
		"an account": {secret: object("values", labelled), account: "puller",
			want: "does not move ServiceAccounts; create puller in the other management cluster"},
		"the management cluster": {secret: object("values", labelled),
			management: &addonsv1.ManagementCluster{ImpersonateServiceAccountName: "admin"},
			want:       "create admin in the other management cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
			helmOp.Spec.ValuesFrom = []addonsv1.ValuesReference{{Kind: apiutil.KindSecret, Name: "values"},
				{Kind: apiutil.KindConfigMap, Name: "missing", Optional: true}}
			helmOp.Spec.Source.ImagePullServiceAccountName, helmOp.Spec.ManagementCluster = tc.account, tc.management
			secrets := controllertest.ClientOf(tc.secret)
			references := references.NewReader(secrets, secrets)
			r := &Reconciler{references: references}
			if err := r.reportMovable(t.Context(), &helmOpScope{helmOp: helmOp}); err != nil {
				t.Fatal(err)
			}
			movable := conditions.Get(helmOp, addonsv1.MovableCondition)
			if isMovable := movable.Status == metav1.ConditionTrue; isMovable != (tc.want == "") ||
				!strings.Contains(movable.Message, tc.want) {
				t.Errorf("Movable is %s: %s", movable.Status, movable.Message)
			}
			helmOp.Spec.ValuesFrom, helmOp.Spec.Source.ImagePullServiceAccountName, helmOp.Spec.ManagementCluster = nil, "", nil
			if err := r.reportMovable(t.Context(), &helmOpScope{helmOp: helmOp}); err != nil ||
				conditions.Get(helmOp, addonsv1.MovableCondition) != nil {
				t.Errorf("without references there is a condition, or %v", err)
			}
		})
	}
}

// TestMovableNamesFirstUnlabelledObjects has Clusters whose objects lack the label of clusterctl move. The condition
// must name the first of these objects, and must have the number of all.
func TestMovableNamesFirstUnlabelledObjects(t *testing.T) {
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	scope := &helmOpScope{helmOp: helmOp}
	var objects []client.Object
	for i := range 25 {
		name := fmt.Sprintf("cloud-%02d", i)
		objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
		scope.clusters = append(scope.clusters, &clusterScope{references: []render.ClusterReference{
			{Kind: apiutil.KindSecret, Name: name}, {Kind: apiutil.KindSecret, Name: "missing"},
		}})
	}
	secrets := controllertest.ClientOf(objects...)
	r := &Reconciler{references: references.NewReader(secrets, secrets)}
	if err := r.reportMovable(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	movable := conditions.Get(helmOp, addonsv1.MovableCondition)
	for _, want := range []string{"does not move 25 objects without its label; label the first 10 of them: kubectl",
		"secret/cloud-00 ", "secret/cloud-09 clusterctl"} {
		if movable.Status != metav1.ConditionFalse || !strings.Contains(movable.Message, want) {
			t.Errorf("%q is not in %s: %s", want, movable.Status, movable.Message)
		}
	}
}

func TestReportSetsAndRemovesStalled(t *testing.T) {
	t.Parallel()
	scope := &helmOpScope{helmOp: &addonsv1.HelmOp{}, artifact: &addonsv1.ResolvedArtifact{},
		selectorErr: errors.New("bad")}
	r := &Reconciler{now: time.Now, recorder: events.NewFakeRecorder(10)}
	r.report(scope)
	stalled := conditions.Get(scope.helmOp, addonsv1.StalledCondition)
	if stalled == nil || stalled.Reason != addonsv1.InvalidSelectorReason || stalled.Message != "bad" {
		t.Errorf("Stalled is %v", stalled)
	}
	scope.selectorErr = nil
	r.report(scope)
	if stalled := conditions.Get(scope.helmOp, addonsv1.StalledCondition); stalled != nil {
		t.Errorf("Stalled stays: %v", stalled)
	}
}
