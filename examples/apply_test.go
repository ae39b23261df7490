// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server of TestApply.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) { os.Exit(sharedServer.Run(m)) }

// TestApply sends each object of each example to a real API server, which checks the schema and the rules of its kind
// and refuses unknown fields. Only namespaces are created: names of HelmOps are unique only within a file.
func TestApply(t *testing.T) {
	t.Parallel()
	config := sharedServer.Server(t).RESTConfig()
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{ErrorIfPathMissing: true,
		Paths: []string{filepath.Join("..", "config", "crd", "bases"), sharedServer.Binaries().CoreCRDs}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range exampleFiles(t) {
		t.Run(file, func(t *testing.T) {
			for _, document := range documents(t, file) {
				object := parse(t, file, document)
				createNamespace(t, c, object.GetNamespace())
				options := []client.CreateOption{client.FieldValidation(metav1.FieldValidationStrict), client.DryRunAll}
				if object.GetKind() == apiutil.KindNamespace {
					createNamespace(t, c, object.GetName())
					object.SetGenerateName(object.GetName() + "-")
					object.SetName("")
				}
				if err := c.Create(t.Context(), object, options...); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

// createNamespace creates a namespace if it does not exist.
func createNamespace(t *testing.T, c client.Client, name string) {
	t.Helper()
	if name == "" {
		return
	}
	err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
