// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"context"
	"os"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	next = "v1beta1"
	// servedTimeout is how long an API server may take until it serves a changed CustomResourceDefinition.
	servedTimeout = time.Minute
	servedPoll    = 100 * time.Millisecond
)

// definition is a CustomResourceDefinition.
type definition = apiextensionsv1.CustomResourceDefinition

// nextVersion is an API server with the CustomResourceDefinition of HelmOp.
type nextVersion struct {
	*testing.T
	client.Client
	name string // of the CustomResourceDefinition
}

// TestNextVersionNeedsNoWebhook follows the steps in docs/upgrade.md to an API version with the same fields: serve both
// versions, store the new version, write all objects again, and remove the old version.
func TestNextVersionNeedsNoWebhook(t *testing.T) {
	t.Parallel()
	v := startNextVersion(t)
	former := addonsv1.GroupVersion.Version
	example := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(readFile(t, "examples/cilium.yaml"), example); err != nil {
		t.Fatal(err)
	}
	example.SetNamespace(metav1.NamespaceDefault)
	if err := v.Create(t.Context(), example.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	before := v.read(former, example.GetName())

	v.change(func(crd *definition) {
		version := crd.Spec.Versions[0].DeepCopy()
		version.Name, version.Storage = next, false
		crd.Spec.Versions = append(crd.Spec.Versions, *version)
	})
	v.equal(before, v.read(next, example.GetName()))
	other := example.DeepCopy()
	other.SetName("new")
	other.SetAPIVersion(addonsv1.GroupVersion.Group + "/" + next)
	if err := v.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	v.equal(v.read(next, "new"), v.read(former, "new"))

	v.change(func(crd *definition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	})
	for _, name := range []string{example.GetName(), "new"} {
		// An update without a change stores the object in the new version.
		if err := v.Update(t.Context(), v.read(next, name)); err != nil {
			t.Fatal(err)
		}
	}
	crd := v.change(func(*definition) {})
	tooEarly := crd.DeepCopy()
	tooEarly.Spec.Versions = crd.Spec.Versions[1:]
	if err := v.Update(t.Context(), tooEarly); !apierrors.IsInvalid(err) {
		t.Errorf("a version is removed while objects are stored in it: %v", err)
	}
	crd.Status.StoredVersions = []string{next}
	if err := v.Status().Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	v.change(func(crd *definition) { crd.Spec.Versions = crd.Spec.Versions[1:] })
	v.equal(before, v.read(next, example.GetName()))

	wrong := v.read(next, "new")
	if err := unstructured.SetNestedField(wrong.Object, "https://registry.example", "spec", "source", "url"); err != nil {
		t.Fatal(err)
	}
	if err := v.Update(t.Context(), wrong); err == nil {
		t.Error("the new version has no validation")
	}
}

func startNextVersion(t *testing.T) *nextVersion {
	t.Helper()
	programs, err := binaries.Ensure(t.Context(), binaries.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.Start(t.Context(), apiserver.Options{Name: "nextversion", Dir: t.TempDir(),
		Binaries: programs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Log(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	v := &nextVersion{T: t, Client: c, name: "helmops." + addonsv1.GroupVersion.Group}
	for _, obj := range ofKind(objects(t), "CustomResourceDefinition") {
		if obj.GetName() == v.name {
			if err := c.Create(t.Context(), convert[apiextensionsv1.CustomResourceDefinition](t, obj)); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.served()
	return v
}

// change changes the CustomResourceDefinition and waits until the API server serves it.
func (v *nextVersion) change(change func(*definition)) *definition {
	v.Helper()
	crd := &definition{}
	// The API server writes conditions.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := v.Get(v.Context(), client.ObjectKey{Name: v.name}, crd); err != nil {
			return err
		}
		change(crd)
		return v.Update(v.Context(), crd)
	})
	if err != nil {
		v.Fatal(err)
	}
	v.served()
	return crd
}

// served waits until each version that the CustomResourceDefinition serves can be listed.
func (v *nextVersion) served() {
	v.Helper()
	crd := &definition{}
	var last error
	err := wait.PollUntilContextTimeout(v.Context(), servedPoll, servedTimeout, true, func(ctx context.Context) (bool,
		error) {
		last = v.Get(ctx, client.ObjectKey{Name: v.name}, crd)
		for i := 0; last == nil && i < len(crd.Spec.Versions); i++ {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind(crd.Spec.Versions[i].Name))
			last = v.List(ctx, list)
		}
		return last == nil, nil
	})
	if err != nil {
		v.Fatalf("%v: %v", err, last)
	}
}

func kind(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: addonsv1.GroupVersion.Group, Version: version, Kind: "HelmOp"}
}

// read reads a HelmOp in a version.
func (v *nextVersion) read(version, name string) *unstructured.Unstructured {
	v.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind(version))
	if err := v.Get(v.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, object); err != nil {
		v.Fatal(err)
	}
	return object
}

// equal compares two objects, except for their versions.
func (v *nextVersion) equal(want, got *unstructured.Unstructured) {
	v.Helper()
	if want.GetUID() != got.GetUID() || !reflect.DeepEqual(want.Object["spec"], got.Object["spec"]) ||
		want.Object["spec"] == nil {
		v.Errorf("read %v, want %v", got.Object, want.Object)
	}
}
