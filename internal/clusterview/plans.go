// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"fmt"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definitionKind is the kind of a CustomResourceDefinition.
var definitionKind = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")

// clustersDefinition is the key of the CustomResourceDefinition of Clusters.
var clustersDefinition = client.ObjectKey{Name: "clusters." + clusterv1.GroupVersion.Group}

// schemaFact is what the schema of a CustomResourceDefinition says. The schema changes only with the generation.
type schemaFact struct {
	mu         sync.Mutex
	uid        types.UID
	generation int64

	// isRead is true after the first read. hasPlan is true if the schema has the field for the plan of an upgrade.
	isRead, hasPlan bool
}

// PublishesPlans reports whether Cluster API publishes the plans of upgrades: the schema of Clusters has the field
// status.controlPlane.upgradePlan since Cluster API 1.14. The result follows upgrades of Cluster API. The cache has
// only the metadata of the CustomResourceDefinition. So PublishesPlans asks the API server once per generation of the
// CustomResourceDefinition. It returns false if the CustomResourceDefinition does not exist.
func (r *Reader) PublishesPlans(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, objectReadTimeout)
	defer cancel()
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(definitionKind)
	if err := r.client.Get(ctx, clustersDefinition, metadata); err != nil {
		return false, definitionError(err)
	}
	fact := &r.plans
	// Callers that need the same generation wait here for one request.
	fact.mu.Lock()
	defer fact.mu.Unlock()
	if fact.isRead && fact.uid == metadata.UID && fact.generation >= metadata.Generation {
		return fact.hasPlan, nil
	}
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(definitionKind)
	if err := r.live.Get(ctx, clustersDefinition, definition); err != nil {
		return false, definitionError(err)
	}
	fact.uid, fact.generation = definition.GetUID(), definition.GetGeneration()
	fact.isRead, fact.hasPlan = true, hasUpgradePlan(definition)
	return fact.hasPlan, nil
}

func definitionError(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("reading the CustomResourceDefinition %s: %w", clustersDefinition.Name, err)
}

// hasUpgradePlan reports whether Clusters, in the version that HelmOp reads, have the field for the plan of an upgrade.
func hasUpgradePlan(definition *unstructured.Unstructured) bool {
	field, _, _ := unstructured.NestedFieldNoCopy(definition.Object, "spec", "versions")
	versions, _ := field.([]any)
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if version["name"] != clusterv1.GroupVersion.Version {
			continue
		}
		_, ok, _ := unstructured.NestedFieldNoCopy(version, "schema", "openAPIV3Schema",
			"properties", "status", "properties", "controlPlane", "properties", "upgradePlan")
		return ok
	}
	return false
}
