// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package upgraderun

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releasespec"
)

// definitions returns the CustomResourceDefinitions in the cluster for the kinds of objects. It reads them as the user
// of the kubeconfig, because the identity of the release may lack the permission.
func (r *run) definitions(ctx context.Context, refs []inventory.Ref) (
	apilifecycle.Definitions, error,
) {
	kinds := map[schema.GroupKind]bool{}
	for _, ref := range refs {
		if kind := ref.GroupVersionKind().GroupKind(); !apilifecycle.IsOfKubernetes(kind.Group) {
			kinds[kind] = true
		}
	}
	definitions := apilifecycle.Definitions{}
	if len(kinds) == 0 {
		return definitions, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	target := r.Target
	target.Impersonate = ""
	found, err := r.Engine.Definitions(ctx, target, r.Release.Spec.Release.Namespace,
		slices.Collect(maps.Keys(kinds)))
	for _, one := range found {
		definitions.Add(one)
	}
	return definitions, err
}

// definitionsAfter returns the definitions of a cluster after a rendering is applied. It adds the definitions in
// templates, and the missing definitions in the folders crds. If replaces is true, all definitions in the folders crds
// are added.
func definitionsAfter(cluster, files, rendered apilifecycle.Definitions, replaces bool) apilifecycle.Definitions {
	all := apilifecycle.Definitions{}
	if replaces {
		maps.Copy(all, cluster)
	}
	maps.Copy(all, files)
	if !replaces {
		maps.Copy(all, cluster)
	}
	maps.Copy(all, rendered)
	return all
}

// replacesCRDs reports whether the next action replaces the objects in the folders crds.
func (r *run) replacesCRDs() bool {
	_, options := releasespec.DesiredOf(r.Release)
	if r.present.Revision > 0 {
		return options.Upgrade.CRDs == model.CRDsCreateReplace
	}
	return options.Install.CRDs == model.CRDsCreateReplace
}

// definitionsIn returns the CustomResourceDefinitions among objects.
func definitionsIn(objects []*unstructured.Unstructured) (apilifecycle.Definitions, error) {
	definitions := apilifecycle.Definitions{}
	for _, object := range objects {
		if object.GroupVersionKind() != apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
			continue
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
			return nil, fmt.Errorf("the CustomResourceDefinition %s of the chart: %w", object.GetName(), err)
		}
		definitions.Add(definition)
	}
	return definitions, nil
}
