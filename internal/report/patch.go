// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// WriteObject writes the changes that a pass has made to an object. Usually only the status has changed, which takes
// one request. Cluster API's patch helper would send two requests, because it patches conditions separately. This would
// cause two watch events. WriteObject uses the helper in two cases: if another program has changed the object
// meanwhile, so that its conditions stay, and if more than the status changed.
//
// Conditions of the owned types are overwritten, even if another program has changed them.
func WriteObject(ctx context.Context, c client.Client, before, after client.Object, owned []string) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil // Most passes change nothing, and comparing is several times cheaper than computing a patch.
	}
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return err
	}
	changes := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &changes); err != nil {
		return err
	}
	_, hasStatus := changes["status"]
	switch {
	case len(changes) == 0:
		return nil
	case !after.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0:
		// The API server deletes the object with its last finalizer, so HelmOp need not write the status.
		delete(changes, "status")
		rest, err := json.Marshal(changes)
		if err != nil {
			return err
		}
		return client.IgnoreNotFound(c.Patch(ctx, copied(after), client.RawPatch(types.MergePatchType, rest)))
	case hasStatus && len(changes) == 1:
		err := patchStatus(ctx, c, before, after, changes["status"])
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	helper, err := patch.NewHelper(before, c)
	if err != nil {
		return err
	}
	return helper.Patch(ctx, after, patch.WithOwnedConditions{Conditions: owned})
}

// patchStatus patches the changed fields of the status. It returns a conflict if another program has written the object
// since it was read.
func patchStatus(ctx context.Context, c client.Client, before, after client.Object, status json.RawMessage) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": before.GetResourceVersion()},
		"status": status})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, copied(after), client.RawPatch(types.MergePatchType, data))
}

// copied returns a copy of an object. The response to a write is read into the copy.
func copied(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// Cluster API's patch helper merges conditions only of types that implement conditions.Setter.
var (
	_ conditions.Setter = &addonsv1.HelmOp{}
	_ conditions.Setter = &addonsv1.HelmOpRelease{}
)
