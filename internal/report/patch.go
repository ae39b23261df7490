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

// WriteObject writes what a pass has changed of an object since it was read. Mostly that is the status alone, and one
// request: Cluster API's helper sends the conditions by themselves, so that every pass would be two, and two events for
// whoever watches. The helper is for when somebody else has written the object meanwhile, whose conditions stay, and
// for changes of more than the status.
//
// Conditions of the types that are owned are as this process says, whoever wrote them.
func WriteObject(ctx context.Context, c client.Client, before, after client.Object, owned []string) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil // Most passes end here, and a patch costs several times as much as to compare.
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
		// With the last finalizer the object goes, and its status with it.
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

// patchStatus writes what changed of the status, if nobody else has written the object since it was read.
func patchStatus(ctx context.Context, c client.Client, before, after client.Object, status json.RawMessage) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]string{"resourceVersion": before.GetResourceVersion()},
		"status": status})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, copied(after), client.RawPatch(types.MergePatchType, data))
}

// copied is a copy to read the answer to a write into.
func copied(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// The types must be those of which Cluster API's helper merges conditions.
var (
	_ conditions.Setter = &addonsv1.HelmOp{}
	_ conditions.Setter = &addonsv1.HelmOpRelease{}
)
