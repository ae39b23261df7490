// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
)

// Result is what the next installation or upgrade of a release would apply. It contains the values, also those from
// Secrets, wherever the chart puts them.
type Result struct {
	// Revision is the Helm revision that the action would create; 1 for an installation.
	Revision int

	// Manifest has the objects as YAML documents, in the order in which Helm creates them, without hooks.
	Manifest string

	// Hooks are the manifests of the hooks, tests included, and CRDs are the files of the folders crds.
	Hooks, CRDs []string

	// Notes is the rendered NOTES.txt of the chart.
	Notes string

	// hooks are the hooks in the types of Helm, and crds the objects in the folders crds.
	hooks []*release.Hook
	crds  []*crds.Object
	// announced are the kinds that the cluster serves only after the CRDs were applied.
	announced []schema.GroupVersionKind
}

// Objects returns all objects, those of hooks and of the folders crds included.
func (r *Result) Objects() ([]*unstructured.Unstructured, error) {
	objects, hooks, definitions, err := r.Parts()
	return slices.Concat(definitions, objects, hooks), err
}

// Parts returns the objects of the rendering, those of its hooks, and those in the folders crds.
func (r *Result) Parts() (objects, hooks, definitions []*unstructured.Unstructured, err error) {
	if objects, err = apply.DecodeManifest([]byte(r.Manifest)); err != nil {
		return nil, nil, nil, err
	}
	if hooks, err = objectsOfHooks(r.hooks); err != nil {
		return nil, nil, nil, err
	}
	for _, file := range r.CRDs {
		more, err := apply.DecodeManifest([]byte(file))
		if err != nil {
			return nil, nil, nil, err
		}
		definitions = append(definitions, more...)
	}
	return objects, hooks, definitions, nil
}

// objectsOfHooks returns the objects of hooks.
func objectsOfHooks(hooks []*release.Hook) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, hook := range hooks {
		objects, err := apply.DecodeManifest([]byte(hook.Manifest))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}
