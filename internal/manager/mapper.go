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

// steadyMapper remembers under which resources kinds are served. Every read of a cache asks for that, to learn whether the kind is
// namespaced, and the mapper of controller-runtime goes through all kinds of the group each time. It is safe for concurrent use.
type steadyMapper struct {
	meta.RESTMapper
	// known holds mappings by kind and versions. There are as many as kinds that are read.
	known sync.Map
}

// newSteadyMapper is a manager's MapperProvider.
func newSteadyMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, err
	}
	return &steadyMapper{RESTMapper: mapper}, nil
}

// RESTMapping implements meta.RESTMapper. What is not served is asked for again: it may be soon. A kind cannot change whether it is
// namespaced, but by being deleted and made anew, which ends the watch of a cache, too.
func (m *steadyMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) == 0 {
		// Which version is the preferred one may change.
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
