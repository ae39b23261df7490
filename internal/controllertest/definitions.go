// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// DefinitionsClient returns a client of a management cluster that has only CustomResourceDefinitions, for each kind one
// with the given labels.
func DefinitionsClient(t *testing.T, labels map[schema.GroupKind][]string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var versions []schema.GroupVersion
	for kind := range labels {
		versions = append(versions, kind.WithVersion("v1").GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	mapper.Add(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), meta.RESTScopeRoot)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper)
	for kind, names := range labels {
		version := kind.WithVersion("v1")
		mapper.Add(version, meta.RESTScopeNamespace)
		plural, _ := meta.UnsafeGuessKindToResource(version)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		definition.Name, definition.Labels = plural.GroupResource().String(), map[string]string{}
		for _, name := range names {
			definition.Labels[name] = ""
		}
		builder.WithObjects(definition)
	}
	return builder.Build()
}
