// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

const aDigest = "sha256:a"

// newApplier returns an Applier for a cluster with the given objects. Its context ends each wait after a moment.
func newApplier(t *testing.T, objects ...client.Object) (*Applier, context.Context) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme),
		addonsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(controllertest.Copies(objects...)...).Build()
	return &Applier{Client: c, Report: func(client.Object, Outcome) {}}, ctx
}

// expect checks the text of an error; an empty text expects no error.
func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	serving := func(version string, served bool) client.Object {
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: served}},
			},
		}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"without Cluster API":             {nil, "clusterctl init"},
		"with an old one":                 {[]client.Object{serving("v1beta1", true)}, "upgrade it"},
		"with one that does not serve it": {[]client.Object{serving("v1beta2", false)}, "upgrade it"},
		"with Cluster API":                {[]client.Object{serving("v1beta2", true)}, ""},
	} {
		applier, ctx := newApplier(t, tc.objects...)
		expect(t, name, applier.Check(ctx), tc.want)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	deployment := func(change func(*appsv1.Deployment)) client.Object {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Deployment, Generation: 1}}
		d.Spec.Replicas, d.Status.ObservedGeneration = ptr.To[int32](1), 1
		change(d)
		return d
	}
	wanted := &unstructured.Unstructured{}
	wanted.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	wanted.SetNamespace(Namespace)
	wanted.SetName(Deployment)
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"gone":       {nil, "not ready in time"},
		"no replica": {[]client.Object{deployment(func(*appsv1.Deployment) {})}, "not ready in time"},
		"out of time": {[]client.Object{deployment(func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: "False",
				Reason: "ProgressDeadlineExceeded"}}
		})}, "Deployment helmop-system/helmop-controller-manager: not ready"},
		"ready": {[]client.Object{deployment(func(d *appsv1.Deployment) {
			d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1, 1, 1
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: "True"}}
		})}, ""},
	} {
		applier, ctx := newApplier(t, tc.objects...)
		err := applier.Wait(ctx, []*unstructured.Unstructured{wanted})
		expect(t, name, err, tc.want)
		if tc.want != "" && !errors.Is(err, ErrNotReady) {
			t.Errorf("%s: %v is no ErrNotReady", name, err)
		}
	}
}

func TestWaitFor(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ProviderHelmOp}}
	helmOp.Status.Conditions = []metav1.Condition{{Type: addonsv1.ReadyCondition, Status: "False",
		Reason: "RegistryUnreachable", Message: "no answer"}}
	release := func(digest string, conditions ...metav1.Condition) *addonsv1.HelmOpRelease {
		r := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: "r", Generation: 2, Labels: map[string]string{addonsv1.HelmOpNameLabel: ProviderHelmOp},
		}}
		r.Spec.Artifact.Digest, r.Status.Conditions = digest, conditions
		return r
	}
	ready := metav1.Condition{Type: addonsv1.ReadyCondition, Status: "True", Reason: "Ready", ObservedGeneration: 2}
	stale, not := ready, ready
	stale.ObservedGeneration, not.Status, not.Reason, not.Message = 1, "False", "UpgradeFailed", "because"
	stalled := metav1.Condition{Type: addonsv1.StalledCondition, Status: "True", Reason: "RetriesExhausted",
		ObservedGeneration: 2}
	demanding := func(verified ...metav1.Condition) *addonsv1.HelmOp {
		h := helmOp.DeepCopy()
		h.Generation, h.Spec.Source.Verify, h.Status.Conditions = 3, &addonsv1.Verification{}, verified
		return h
	}
	verified := metav1.Condition{Type: addonsv1.VerifiedCondition, Status: "True", Reason: "Verified",
		ObservedGeneration: 3}
	unsigned, before := verified, verified
	pausedBySpec, pausedByAnnotation := helmOp.DeepCopy(),
		release(aDigest, ready, metav1.Condition{Type: addonsv1.PausedCondition, Status: "True", Reason: "Paused",
			Message: "because of this"})
	pausedBySpec.Spec.Paused, pausedByAnnotation.Annotations = true, map[string]string{clusterv1.PausedAnnotation: ""}
	unsigned.Status, unsigned.Reason, unsigned.Message, before.ObservedGeneration = "False", "SignatureNotFound", "none", 2
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nothing":                {nil, "not ready in time"},
		"nothing yet":            {[]client.Object{helmOp}, "RegistryUnreachable: no answer"},
		"still the one before":   {[]client.Object{helmOp, release("sha256:b", ready)}, "RegistryUnreachable: no answer"},
		"before the last change": {[]client.Object{helmOp, release(aDigest, stale)}, "not ready in time"},
		"failed": {[]client.Object{helmOp, release(aDigest, not)},
			"not ready in time: UpgradeFailed: because"},
		"failed for good": {[]client.Object{helmOp, release(aDigest, not, stalled)},
			"HelmOp helmop: not ready: UpgradeFailed: because"},
		"ready": {[]client.Object{helmOp, release(aDigest, ready)}, ""},
		"paused by its spec": {[]client.Object{pausedBySpec, release(aDigest, ready)},
			"HelmOp helmop: paused: spec.paused is true"},
		"paused by annotation": {[]client.Object{helmOp, pausedByAnnotation}, "HelmOp helmop: paused: because of this"},
		"verified":             {[]client.Object{demanding(verified), release(aDigest, ready)}, ""},
		"verified before":      {[]client.Object{demanding(before), release(aDigest, ready)}, "not checked its signature"},
		"ready and not signed": {[]client.Object{demanding(unsigned), release(aDigest, ready)}, "SignatureNotFound: none"},
	} {
		applier, ctx := newApplier(t, tc.objects...)
		expect(t, name, applier.WaitFor(ctx, ProviderHelmOp, aDigest, addonsv1.ReadyCondition), tc.want)
	}
}
