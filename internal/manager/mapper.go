// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// steadyMapper caches the mappings of kinds to resources. Each read from a cache needs the mapping, and the mapper of
// controller-runtime searches all kinds of the group each time. It is safe for concurrent use.
type steadyMapper struct {
	meta.RESTMapper
	// known holds mappings by kind and versions. Its size is the number of kinds that are read.
	known sync.Map
}

// newSteadyMapper implements MapperProvider.
func newSteadyMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, err
	}
	return &steadyMapper{RESTMapper: mapper}, nil
}

// RESTMapping implements meta.RESTMapper. It does not cache that a kind is not served, because the kind may be served
// later. A CustomResourceDefinition must be re-created to change the scope of its kind, and this also ends the watch of
// the cache.
func (m *steadyMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) == 0 {
		// The preferred version may change, so it is not cached.
		return m.RESTMapper.RESTMapping(kind)
	}
	key := kind.String() + "/" + strings.Join(versions, ",")
	if known, ok := m.known.Load(key); ok {
		return known.(*meta.RESTMapping), nil
	}
	mapping, err := m.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		m.known.Store(key, mapping)
	}
	return mapping, err
}
