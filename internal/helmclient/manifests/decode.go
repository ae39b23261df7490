// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
)

// Decode returns the objects of manifests, and the items of a list instead of the list. It reserves memory for them
// before it parses them. A nil Lease has no bound.
func Decode(lease *actionmemory.Lease, texts ...string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, manifest := range texts {
		end, err := lease.Parse(manifest, false)
		if err != nil {
			return nil, err
		}
		objects, err := DecodeText([]byte(manifest))
		end()
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// DecodeText returns the objects of one manifest, as [Decode] does. The caller has reserved the memory for them.
func DecodeText(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the manifest cannot be parsed: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if !object.IsList() {
			objects = append(objects, object)
			continue
		}
		err = object.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("the manifest cannot be parsed: %w", err)
		}
	}
}
