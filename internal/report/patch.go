// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// WriteObject writes the changes that a pass has made to an object. Mostly only the status changed, which takes one
// request. If the rest changed, too, WriteObject sends it first, in another request. Cluster API's patch helper would
// send one request more, because it patches conditions separately, and would cause one more watch event. WriteObject
// uses the helper if another program has changed the object meanwhile: its conditions stay.
//
// If another program has changed the object, WriteObject does not write changed finalizers: a patch replaces the whole
// list, so it would remove the finalizer of another program. It writes the rest and returns the conflict. The next pass
// reads the object again.
//
// Conditions of the owned types are overwritten, even if another program has changed them.
func WriteObject(ctx context.Context, c client.Client, before, after client.Object, owned []string) error {
	// Most passes change nothing, and comparing is several times cheaper than computing a patch. The first comparison
	// takes a third of the time of the second one, but also finds differences without a meaning, such as an empty list.
	if reflect.DeepEqual(before, after) || equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	data, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return err
	}
	changes := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &changes); err != nil {
		return err
	}
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
	}
	isRestWritten, err := patchParts(ctx, c, before, after, changes)
	if !apierrors.IsConflict(err) {
		return err
	}
	return patchStale(ctx, c, before, after, owned, isRestWritten, err)
}

// patchStale writes an object that another program has written since it was read. Its conditions stay. conflict is the
// answer to the first write. The result is the conflict if the changed finalizers are not written.
func patchStale(ctx context.Context, c client.Client, before, after client.Object, owned []string, isRestWritten bool,
	conflict error,
) error {
	switch {
	case isRestWritten:
		// The helper must not write the rest again: another program may have changed it since.
		before, conflict = withStatusOf(after, before), nil
	case slices.Equal(before.GetFinalizers(), after.GetFinalizers()):
		conflict = nil
	default:
		after = copied(after)
		after.SetFinalizers(before.GetFinalizers())
	}
	helper, err := patch.NewHelper(before, c)
	if err != nil {
		return err
	}
	if err := helper.Patch(ctx, after, patch.WithOwnedConditions{Conditions: owned}); err != nil {
		return err
	}
	return conflict
}

// withStatusOf returns a copy of an object with the status of another object of the same type.
func withStatusOf(obj, other client.Object) client.Object {
	merged := copied(obj)
	status := func(of client.Object) reflect.Value { return reflect.ValueOf(of).Elem().FieldByName("Status") }
	status(merged).Set(status(copied(other)))
	return merged
}

// patchParts patches the changed fields of an object: first all but the status, and then the status. It returns a
// conflict if another program has written the object since it was read, and whether the first request, for all but the
// status, succeeded.
func patchParts(ctx context.Context, c client.Client, before, after client.Object,
	changes map[string]json.RawMessage,
) (isRestWritten bool, err error) {
	version := before.GetResourceVersion()
	status, hasStatus := changes["status"]
	delete(changes, "status")
	if len(changes) > 0 {
		data, err := atVersion(changes, version)
		if err != nil {
			return false, err
		}
		written := copied(after)
		if err := c.Patch(ctx, written, client.RawPatch(types.MergePatchType, data)); err != nil {
			return false, err
		}
		version, isRestWritten = written.GetResourceVersion(), true
	}
	if !hasStatus {
		return isRestWritten, nil
	}
	data, err := atVersion(map[string]json.RawMessage{"status": status}, version)
	if err != nil {
		return isRestWritten, err
	}
	return isRestWritten, c.Status().Patch(ctx, copied(after), client.RawPatch(types.MergePatchType, data))
}

// atVersion returns a patch that the API server refuses if the object has another resource version.
func atVersion(changes map[string]json.RawMessage, version string) ([]byte, error) {
	metadata := map[string]any{}
	if changed, ok := changes["metadata"]; ok {
		if err := json.Unmarshal(changed, &metadata); err != nil {
			return nil, err
		}
	}
	metadata["resourceVersion"] = version
	patched := map[string]any{"metadata": metadata}
	for field, changed := range changes {
		if field != "metadata" {
			patched[field] = changed
		}
	}
	return json.Marshal(patched)
}

// copied returns a copy of an object, into which the response to a write is read.
func copied(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// Cluster API's patch helper merges conditions only of types that implement conditions.Setter.
var (
	_ conditions.Setter = &addonsv1.HelmOp{}
	_ conditions.Setter = &addonsv1.HelmOpRelease{}
)
