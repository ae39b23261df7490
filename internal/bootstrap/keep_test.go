// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestAppliedState checks that the state in the cluster is found as long as an empty state would delete its objects.
func TestAppliedState(t *testing.T) {
	t.Parallel()
	following := func(ref addonsv1.ArtifactReference) client.Object {
		h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: StateHelmOp}}
		h.Spec.Source = addonsv1.ArtifactSource{URL: "oci://r.example/fleet", Ref: ref}
		return h
	}
	record := func(release string) client.Object {
		name := "sh.helm.release.v1." + release + ".v3"
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name,
			Labels: map[string]string{"owner": "helm", "name": release}}}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nothing":         {nil, ""},
		"another release": {[]client.Object{record(ProviderHelmOp)}, ""},
		"a HelmOp": {[]client.Object{following(addonsv1.ArtifactReference{Tag: "x"})},
			"HelmOp cluster-state follows oci://r.example/fleet:x"},
		"a HelmOp without a tag": {[]client.Object{following(addonsv1.ArtifactReference{})},
			"HelmOp cluster-state follows oci://r.example/fleet"},
		"what a deleted HelmOp leaves": {[]client.Object{record(StateHelmOp)},
			"does not exist, but its release is still installed (Secret sh.helm.release.v1.cluster-state.v3)"},
	} {
		applier, ctx := newApplier(t, tc.objects...)
		got, err := applier.AppliedState(ctx)
		if err != nil || !strings.HasSuffix(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestStatePath(t *testing.T) {
	t.Parallel()
	at := func(name, folder string) client.Object {
		h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name}}
		h.Spec.Source.Path = folder
		return h
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
		found   bool
	}{
		"nothing":     {},
		"another one": {objects: []client.Object{at(ProviderHelmOp, "a")}},
		"all of it":   {objects: []client.Object{at(StateHelmOp, "")}, found: true},
		"a folder":    {objects: []client.Object{at(StateHelmOp, "clusters/a")}, found: true, want: "clusters/a"},
	} {
		applier, ctx := newApplier(t, tc.objects...)
		if got, found, err := applier.StatePath(ctx); err != nil || got != tc.want || found != tc.found {
			t.Errorf("%s: %q, %t, %v", name, got, found, err)
		}
	}
}

// TestKeep checks that a run keeps the fields that its flags do not set, and writes the fields that they set.
func TestKeep(t *testing.T) {
	t.Parallel()
	known := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: ProviderHelmOp}}
	known.Spec.Source = addonsv1.ArtifactSource{
		Interval: metav1.Duration{Duration: time.Hour}, CertSecretRef: &addonsv1.SecretReference{Name: "mine"},
		Verify: &addonsv1.Verification{Provider: addonsv1.VerificationProviderCosign,
			SecretRef: &addonsv1.SecretReference{Name: "mine"}},
	}
	for name, tc := range map[string]struct {
		access Access
		field  string
		at     []string
		kept   bool
		want   any
		// other is the field in the HelmOp that is not in the cluster yet.
		other any
	}{
		"a demand for signatures": {field: "verify", at: []string{"secretRef", "name"}, kept: true, want: "mine"},
		"another demand for signatures": {access: Access{VerifyKey: []byte("pem")},
			at: []string{"verify", "secretRef", "name"}, want: VerifySecret, other: VerifySecret},
		"authorities": {field: "certSecretRef", at: []string{"name"}, kept: true, want: "mine"},
		"an interval": {access: Access{Interval: time.Minute}, field: "interval", kept: true,
			want: "1h0m0s", other: "1m0s"},
		"another interval": {access: Access{Interval: time.Minute}, at: []string{"interval"}, want: "1m0s",
			other: "1m0s"},
		"the same interval": {access: Access{Interval: time.Hour}, field: "interval", want: "1h0m0s",
			other: "1h0m0s"},
		"what it does not have": {access: Access{PlainHTTP: true}, field: "secretRef"},
	} {
		applier, ctx := newApplier(t, known.DeepCopy())
		objects, err := HelmOps(Artifact{URL: "oci://r.example/a", Tag: "x"}, Artifact{URL: "oci://r.example/b", Tag: "x"},
			tc.access)
		if err != nil {
			t.Fatal(err)
		}
		path := append([]string{"spec", "source"}, tc.at...)
		if tc.field != "" {
			path = append([]string{"spec", "source", tc.field}, tc.at...)
			if kept, err := applier.Keep(ctx, objects, tc.field); err != nil || kept != tc.kept {
				t.Errorf("%s: it is kept: %t, %v", name, kept, err)
			}
		}
		for helmOp, want := range map[string]any{ProviderHelmOp: tc.want, StateHelmOp: tc.other} {
			if got, _, _ := unstructured.NestedFieldNoCopy(find(t, objects, "HelmOp", helmOp).Object, path...); got != want {
				t.Errorf("%s: %s has %v, want %v", name, helmOp, got, want)
			}
		}
	}
}
