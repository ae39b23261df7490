// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
)

// holdFields are the fields that a decision about a deletion hold reads or changes.
var holdFields = [][]string{
	{"metadata", "uid"},
	{"metadata", "annotations", clusterv1.PausedAnnotation},
	{"metadata", "annotations", addonsv1.DeletionHoldAnnotation},
	{"spec", "paused"},
}

// jsonOperation is an operation of a JSON patch (RFC 6902).
type jsonOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// holdPatch returns a patch that changes the holdFields if all of them still have the values from before the decision.
// All other fields may have changed: Cluster API observes a deletion at the same time and writes the status of the
// Cluster. A test of the resource version would nearly always fail, and the hold would begin too late for providers
// that delete quickly.
func holdPatch(before, after *unstructured.Unstructured) (client.Patch, error) {
	var tests, changes []jsonOperation
	seen := map[string]bool{}
	for _, field := range holdFields {
		field = upToMissing(before, field)
		path := drift.FormatPointer(field)
		if seen[path] {
			continue
		}
		seen[path] = true
		was, is := valueAt(before, field), valueAt(after, field)
		tests = append(tests, jsonOperation{Op: "test", Path: path, Value: was})
		switch {
		case reflect.DeepEqual(was, is):
		case is == nil:
			changes = append(changes, jsonOperation{Op: "remove", Path: path})
		default:
			changes = append(changes, jsonOperation{Op: "add", Path: path, Value: is})
		}
	}
	data, err := json.Marshal(append(tests, changes...))
	return client.RawPatch(types.JSONPatchType, data), err
}

// upToMissing returns the path of a field up to the first part that the object does not have. A JSON patch cannot test
// or add anything below a missing part.
func upToMissing(object *unstructured.Unstructured, field []string) []string {
	for i := range field {
		if valueAt(object, field[:i+1]) == nil {
			return field[:i+1]
		}
	}
	return field
}

// valueAt returns the value of a field; nil if the object does not have the field.
func valueAt(object *unstructured.Unstructured, field []string) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, field...)
	return value
}

// isConflict reports whether a change was refused because another program has changed the object. If a test of a JSON
// patch fails, the API server responds that the request is invalid, without causes. A failed validation has causes.
func isConflict(err error) bool {
	if apierrors.IsConflict(err) {
		return true
	}
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
