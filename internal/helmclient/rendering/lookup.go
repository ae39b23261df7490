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

// LookupFunc gets an object. If name is empty, it lists objects. It works like the function lookup in templates. It
// returns an empty map if there is no such object.
type LookupFunc func(apiVersion, kind, namespace, name string) (map[string]any, error)

const (
	// maxLookups bounds the number of lookups of one rendering.
	maxLookups = 1000
	// maxLookupBytes bounds the total size of the results of these lookups, in bytes.
	maxLookupBytes = 64 << 20
)

// lookupRequest has the arguments of a lookup.
type lookupRequest struct{ APIVersion, Kind, Namespace, Name string }

// lookupServer carries out the lookups of one rendering, in the process of the engine.
type lookupServer struct {
	lookup LookupFunc
	count  int
	bytes  int
	// failed is the error of the last failed lookup, which ends the rendering.
	failed error
}

// serve carries out a lookup and returns the encoded result.
func (s *lookupServer) serve(_ context.Context, data []byte) ([]byte, error) {
	var request lookupRequest
	if err := decode(data, &request); err != nil {
		return nil, err
	}
	if s.count++; s.count > maxLookups {
		return nil, fmt.Errorf("the chart looks up more than %d objects or lists", maxLookups)
	}
	found, err := s.lookup(request.APIVersion, request.Kind, request.Namespace, request.Name)
	if err != nil {
		s.failed = err
		return nil, err
	}
	result, err := encode(found)
	if err != nil {
		return nil, err
	}
	if s.bytes += len(result); s.bytes > maxLookupBytes {
		return nil, fmt.Errorf("the objects that the chart looks up have more than %d MiB together", maxLookupBytes>>20)
	}
	return result, nil
}

// lookups returns clients to Helm's engine, in a task.
type lookups struct {
	work *sandbox.Work
	// isServed means that the engine carries out lookups.
	isServed bool
}

// GetClientFor implements engine.ClientProvider.
func (l *lookups) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	if apiVersion == markVersion {
		l.work.Note(fmt.Sprintf("template %q", kind))
		return &lookupClient{}, false, nil
	}
	return &lookupClient{lookups: l, request: lookupRequest{APIVersion: apiVersion, Kind: kind}}, true, nil
}

// lookupClient sends the lookups of one kind to the engine.
type lookupClient struct {
	dynamic.NamespaceableResourceInterface
	// lookups is nil for a client that finds no objects.
	lookups *lookups
	request lookupRequest
}

// Namespace implements dynamic.NamespaceableResourceInterface. The engine finds out whether the kind is namespaced.
func (c *lookupClient) Namespace(namespace string) dynamic.ResourceInterface {
	within := *c
	within.request.Namespace = namespace
	return &within
}

// Get implements dynamic.ResourceInterface.
func (c *lookupClient) Get(
	_ context.Context, name string, _ metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	found, err := c.send(name)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: found}, nil
}

// List implements dynamic.ResourceInterface.
func (c *lookupClient) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	found, err := c.send("")
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

// send sends a lookup to the engine. It returns an object, or a list if name is empty. It converts an empty result to a
// NotFound error.
func (c *lookupClient) send(name string) (map[string]any, error) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: c.request.Kind}, name)
	if c.lookups == nil || !c.lookups.isServed {
		return nil, notFound
	}
	request := c.request
	request.Name = name
	data, err := encode(request)
	if err != nil {
		return nil, err
	}
	result, err := c.lookups.work.Ask(data)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	if err := decode(result, &found); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, notFound
	}
	return found, nil
}
