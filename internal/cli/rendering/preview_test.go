// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// TestChangeHelmOp checks the changes of the flags.
func TestChangeHelmOp(t *testing.T) {
	t.Parallel()
	helmOp := &addonsv1.HelmOp{}
	helmOp.Spec.Source.Ref.Semver = "1.x"
	if err := changeHelmOp(helmOp, "1.2.3", map[string]any{"a": map[string]any{"b": 1}}); err != nil {
		t.Fatal(err)
	}
	if helmOp.Spec.Source.Ref != (addonsv1.ArtifactReference{Tag: "1.2.3"}) ||
		string(helmOp.Spec.Values.Raw) != `{"a":{"b":1}}` {
		t.Errorf("got %+v %s", helmOp.Spec.Source.Ref, helmOp.Spec.Values.Raw)
	}
	if err := changeHelmOp(helmOp, "sha256:1", map[string]any{"a": map[string]any{"c": 2}}); err != nil {
		t.Fatal(err)
	}
	if helmOp.Spec.Source.Ref != (addonsv1.ArtifactReference{Digest: "sha256:1"}) ||
		string(helmOp.Spec.Values.Raw) != `{"a":{"b":1,"c":2}}` {
		t.Errorf("got %+v %s", helmOp.Spec.Source.Ref, helmOp.Spec.Values.Raw)
	}
}

// TestStoreDryRetries expects another try if the manager writes the HelmOp at the same time.
func TestStoreDryRetries(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	live := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "web"}}
	live.Status.ObservedGeneration = 7
	conflicts := 2
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).Build(), interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if conflicts--; conflicts >= 0 {
				return apierrors.NewConflict(addonsv1.GroupVersion.WithResource("helmops").GroupResource(), "web", nil)
			}
			return c.Update(ctx, object, options...)
		}})
	changed := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "web"}}
	changed.Spec.Release.Name = "other"
	if err := storeDry(t.Context(), c, changed); err != nil {
		t.Fatal(err)
	}
	if changed.Spec.Release.Name != "other" || changed.Status.ObservedGeneration != 7 {
		t.Errorf("got %+v", changed)
	}
}

// TestPreviewDigest checks that the output has a command that approves the digest in the chosen management cluster.
func TestPreviewDigest(t *testing.T) {
	t.Parallel()
	report := &Preview{HelmOp: "web", Namespace: "apps", ApprovalDigest: "abc"}
	got := report.text(true, fleetview.Program{Name: "clusterctl helmop", Flags: " --context=mgmt"})
	want := "HelmOp \"web\" in 0 Clusters: the HelmOp selects none\n" +
		"The digest of these releases is abc. To approve exactly them when they wait for an approval:\n" +
		"  clusterctl helmop approve web -n apps --digest abc --context=mgmt\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
