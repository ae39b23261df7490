// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// LookupFunc gets an object, or lists objects if name is empty, as the function lookup of templates does. It returns an
// empty map if there is no such object.
type LookupFunc func(apiVersion, kind, namespace, name string) (map[string]any, error)

const (
	// maxLookups bounds the lookups of one rendering.
	maxLookups = 1000
	// maxLookupBytes bounds the total size of the answers of one rendering.
	maxLookupBytes = 64 << 20
)

// lookupQuestion has the arguments of a lookup.
type lookupQuestion struct{ APIVersion, Kind, Namespace, Name string }

// lookupAnswers answers the lookups of one rendering, in the process of the engine.
type lookupAnswers struct {
	lookup LookupFunc
	count  int
	bytes  int
	// failed is the error of the last lookup that failed: it ends the rendering.
	failed error
}

func (a *lookupAnswers) answer(_ context.Context, data []byte) ([]byte, error) {
	var question lookupQuestion
	if err := decode(data, &question); err != nil {
		return nil, err
	}
	if a.count++; a.count > maxLookups {
		return nil, fmt.Errorf("the chart looks up more than %d objects or lists", maxLookups)
	}
	found, err := a.lookup(question.APIVersion, question.Kind, question.Namespace, question.Name)
	if err != nil {
		a.failed = err
		return nil, err
	}
	answer, err := encode(found)
	if err != nil {
		return nil, err
	}
	if a.bytes += len(answer); a.bytes > maxLookupBytes {
		return nil, fmt.Errorf("the objects that the chart looks up have more than %d MiB together", maxLookupBytes>>20)
	}
	return answer, nil
}

// lookups returns clients to Helm's engine, in a task.
type lookups struct {
	work *sandbox.Work
	// asks is whether the engine answers lookups.
	asks bool
}

// GetClientFor implements engine.ClientProvider.
func (l *lookups) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion == markVersion {
		l.work.Note(fmt.Sprintf("template %q", kind))
		return &lookupClient{}, false, nil
	}
	return &lookupClient{lookups: l, question: lookupQuestion{APIVersion: apiVersion, Kind: kind}}, true, nil
}

// lookupClient sends the lookups of one kind to the engine.
type lookupClient struct {
	dynamic.NamespaceableResourceInterface
	// lookups is nil for a client that finds nothing.
	lookups  *lookups
	question lookupQuestion
}

// Namespace implements dynamic.NamespaceableResourceInterface. The engine finds out whether the kind is namespaced.
func (c *lookupClient) Namespace(namespace string) dynamic.ResourceInterface {
	within := *c
	within.question.Namespace = namespace
	return &within
}

// Get implements dynamic.ResourceInterface.
func (c *lookupClient) Get(
	_ context.Context, name string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	found, err := c.ask(name)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: found}, nil
}

// List implements dynamic.ResourceInterface.
func (c *lookupClient) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	found, err := c.ask("")
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{Object: found}
	items, _ := found["items"].([]any)
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			list.Items = append(list.Items, unstructured.Unstructured{Object: fields})
		}
	}
	return list, nil
}

// ask returns an object, or a list if name is empty. It turns an empty answer into a NotFound error.
func (c *lookupClient) ask(name string) (map[string]any, error) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: c.question.Kind}, name)
	if c.lookups == nil || !c.lookups.asks {
		return nil, notFound
	}
	question := c.question
	question.Name = name
	data, err := encode(question)
	if err != nil {
		return nil, err
	}
	answer, err := c.lookups.work.Ask(data)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	if err := decode(answer, &found); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, notFound
	}
	return found, nil
}
