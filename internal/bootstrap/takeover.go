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
)

// managerFieldManager is what the manager is called among those that change objects, where it installs.
const managerFieldManager = "helmop"

// takeOver makes what the manager has written to an object of the provider this command's, so that it goes where it is not applied: what
// an update added to lists would stay else, as that of somebody else. It changes no more than who is told to have written it.
func (a *Applier) takeOver(ctx context.Context, object *unstructured.Unstructured, now *metav1.PartialObjectMetadata) error {
	if !ofProvider(object) {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(now, sets.New(managerFieldManager), fieldManager)
	if err != nil || patch == nil {
		return err
	}
	if err := a.Client.Patch(ctx, now, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("taking it over from the manager: %w", err)
	}
	return nil
}

// ofProvider tells whether an object is one of the provider's components, as Own returns them.
func ofProvider(object *unstructured.Unstructured) bool {
	return object.GetKind() == crdKind || object.GetAnnotations()[releaseNameKey] == ProviderHelmOp
}
