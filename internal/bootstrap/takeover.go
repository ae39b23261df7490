// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// managerFieldManager is the manager's field manager.
const managerFieldManager = "helmop"

// takeOver transfers the field ownership of a provider object from the manager to this command. Otherwise, list entries
// that an update of the manager added would remain, because the manager would still own these entries. takeOver changes
// only the field ownership.
func (a *Applier) takeOver(
	ctx context.Context,
	object *unstructured.Unstructured,
	now *metav1.PartialObjectMetadata,
) error {
	if !ofProvider(object) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(now, sets.New(managerFieldManager), fieldManager)
	if err != nil || patch == nil {
		return err
	}
	if err := a.Client.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("transferring the manager's field ownership: %w", err)
	}
	return nil
}

// ofProvider reports whether an object is a component of the provider: a CustomResourceDefinition, or an object with
// the annotation that [Own] adds.
func ofProvider(object *unstructured.Unstructured) bool {
	return object.GetKind() == crdKind || object.GetAnnotations()[inventory.HelmReleaseName] == ProviderHelmOp
}
