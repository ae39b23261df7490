// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// spoil leaves changes in a server that would disturb the next user.
func spoil(t *testing.T, s *Server) {
	t.Helper()
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(s.RESTConfig())
	stuck := metav1.ObjectMeta{Name: "stuck", Finalizers: []string{"example.org/never"}}
	_, namespaceErr := client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "left"}}, metav1.CreateOptions{})
	_, mapErr := client.CoreV1().ConfigMaps("left").Create(ctx, &corev1.ConfigMap{ObjectMeta: stuck},
		metav1.CreateOptions{})
	_, roleErr := client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: stuck},
		metav1.CreateOptions{})
	_, labelErr := client.CoreV1().Namespaces().Patch(ctx, "default", "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"left":"yes"}}}`), metav1.PatchOptions{})
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "leftovers.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.org", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "leftovers", Kind: "Leftover"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				}}},
		},
	}
	crds := apiextensionsclient.NewForConfigOrDie(s.RESTConfig()).ApiextensionsV1().CustomResourceDefinitions()
	_, crdErr := crds.Create(ctx, crd, metav1.CreateOptions{})
	if err := errors.Join(namespaceErr, mapErr, roleErr, labelErr, crdErr); err != nil {
		t.Fatal(err)
	}
}

// wantAsNew checks that the Server has none of the changes that spoil makes.
func wantAsNew(t *testing.T, s *Server) {
	t.Helper()
	if requests, err := s.Requests(); err != nil || len(requests) > 0 {
		t.Errorf("the audit log holds %v, %v", requests, err)
	}
	ctx, client := t.Context(), kubernetes.NewForConfigOrDie(s.RESTConfig())
	_, namespaceErr := client.CoreV1().Namespaces().Get(ctx, "left", metav1.GetOptions{})
	_, mapErr := client.CoreV1().ConfigMaps("left").Get(ctx, "stuck", metav1.GetOptions{})
	_, roleErr := client.RbacV1().ClusterRoles().Get(ctx, "stuck", metav1.GetOptions{})
	_, crdErr := apiextensionsclient.NewForConfigOrDie(s.RESTConfig()).ApiextensionsV1().CustomResourceDefinitions().
		Get(ctx, "leftovers.example.org", metav1.GetOptions{})
	for what, err := range map[string]error{"namespace": namespaceErr, "ConfigMap": mapErr, "ClusterRole": roleErr,
		"CRD": crdErr} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s: want not found, got %v", what, err)
		}
	}
	namespace, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	if err != nil || namespace.Labels["left"] != "" {
		t.Errorf("the namespace default is %+v, %v", namespace, err)
	}
}

// answers returns no error if a server answers within a second.
func answers(ctx context.Context, s *Server) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return apiServerReady(ctx, kubernetes.NewForConfigOrDie(s.RESTConfig()))
}

func TestPool(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	ctx := t.Context()
	set, err := binaries.Ensure(ctx, binaries.Options{Programs: binaries.Basic()})
	if err != nil {
		t.Fatal(err)
	}
	pool := NewPool(t.TempDir())
	t.Cleanup(func() {
		if err := pool.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := pool.Get(context.Background(), Options{Binaries: set}, "late"); !errors.Is(err, errPoolStopped) {
			t.Errorf("a stopped pool returns the error %v", err)
		}
	})
	get := func(user string) *Server {
		t.Helper()
		s, err := pool.Get(ctx, Options{Binaries: set}, user)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	put := func(s *Server) {
		t.Helper()
		if err := pool.Put(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	first := get("one")
	spoil(t, first)
	put(first)
	if answers(ctx, first) == nil {
		t.Error("an idle server runs")
	}
	if again := get("two"); again != first {
		t.Fatal("a returned server is not used again")
	}
	wantAsNew(t, first)

	second := get("one")
	if second == first {
		t.Error("a server is in use twice")
	}
	put(first)
	put(second)
	if third := get("one"); third == first || third == second {
		t.Error("a user has a server for the second time")
	}

	faulty := get("three")
	spoil(t, faulty)
	refused := func(state string, fault error) {
		t.Helper()
		if fault != nil {
			t.Fatal(fault)
		}
		if err := faulty.Reset(ctx); !errors.Is(err, ErrNotResettable) {
			t.Errorf("the reset of a server that %s returns the error %v", state, err)
		}
	}
	refused("hangs", faulty.Hang())
	refused("is stopped", faulty.StopAPIServer(ctx))
	if err := errors.Join(faulty.StartAPIServer(ctx), faulty.Hang(), faulty.Resume()); err != nil {
		t.Fatal(err)
	}
	put(faulty)
	if get("four") == faulty || get("five") != faulty {
		t.Fatal("a server is not used again after its API server was stopped and started, and frozen and resumed")
	}
	wantAsNew(t, faulty)

	if err := faulty.Hang(); err != nil {
		t.Fatal(err)
	}
	put(faulty)
	if len(faulty.PIDs()) > 0 {
		t.Error("a server that hangs was not stopped")
	}
}
