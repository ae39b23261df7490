// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Planner adds an object to a plan.
type Planner interface {
	// Missing plans the creation of an object, given as JSON. Without replace, an existing object is kept. With replace,
	// the result of replace takes the place of an existing object.
	Missing(data []byte, replace func(live []byte) ([]byte, error)) error
}

// Plan adds to a plan what [Apply] would do with the objects of a chart's crds folders. It changes nothing.
func Plan(planner Planner, policy model.CRDPolicy, objects []*Object) error {
	for _, object := range objects {
		var replace func([]byte) ([]byte, error)
		if object.IsCRD() && policy == model.CRDsCreateReplace {
			replace = func(live []byte) ([]byte, error) { return mergeCRD(object.data, live) }
		}
		if err := planner.Missing(object.data, replace); err != nil {
			return err
		}
	}
	return nil
}

// Announced returns the kinds that the cluster serves only after CRDs were applied. known are the kinds that the
// cluster serves now. An existing CRD keeps its versions unless the policy replaces the CRD.
func Announced(objects []*Object, policy model.CRDPolicy, known chartutil.VersionSet) []schema.GroupVersionKind {
	isServed := func(kind schema.GroupVersionKind) bool { return known.Has(entryOf(kind)) }
	var announced []schema.GroupVersionKind
	for _, object := range objects {
		if policy != model.CRDsCreateReplace && slices.ContainsFunc(object.Serves, isServed) {
			continue
		}
		for _, kind := range object.Serves {
			if !isServed(kind) {
				announced = append(announced, kind)
			}
		}
	}
	return announced
}

// WithKinds returns the entries of a cluster that serves further kinds. It does not change served, which is shared.
func WithKinds(served chartutil.VersionSet, kinds []schema.GroupVersionKind) chartutil.VersionSet {
	served = slices.Clip(served)
	for _, kind := range kinds {
		if groupVersion := kind.GroupVersion().String(); !served.Has(groupVersion) {
			served = append(served, groupVersion)
		}
		served = append(served, entryOf(kind))
	}
	return served
}

// entryOf returns the entry of a kind in a VersionSet.
func entryOf(kind schema.GroupVersionKind) string {
	return kind.GroupVersion().String() + "/" + kind.Kind
}
