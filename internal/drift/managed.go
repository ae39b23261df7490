// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// maxManagedPaths is the maximum number of paths for which owners are looked up.
const maxManagedPaths = 100

// optedOut reports whether an annotation or label excludes an object from the comparison.
func optedOut(obj *unstructured.Unstructured) bool {
	return obj.GetAnnotations()[optOut] == optOutValue || obj.GetLabels()[optOut] == optOutValue
}

// isDeletedAfterCompletion reports whether Kubernetes deletes an object after the completion of its work. Creating such
// an object again would repeat the work.
func isDeletedAfterCompletion(obj *unstructured.Unstructured) bool {
	gvk := obj.GroupVersionKind()
	return gvk.Group == "batch" && gvk.Kind == "Job" && mapAt(obj.Object, "spec")["ttlSecondsAfterFinished"] != nil
}

// foreignOwner returns the other Helm release, as namespace/name, that owns the object according to its annotations;
// empty if there is none.
func foreignOwner(live *unstructured.Unstructured, release Release) string {
	annotations := live.GetAnnotations()
	name, namespace := annotations[inventory.HelmReleaseName], annotations[inventory.HelmReleaseNamespace]
	if name == "" || namespace == "" || name == release.Name && namespace == release.Namespace {
		return ""
	}
	return printable(namespace+"/"+name, maxPathLength)
}

// ownerPaths returns the paths that differ on an object of another release.
func ownerPaths() []string {
	return []string{
		FormatPointer([]string{metadataField, annotationsField, inventory.HelmReleaseName}),
		FormatPointer([]string{metadataField, annotationsField, inventory.HelmReleaseNamespace}),
	}
}

// lastManager returns the field manager that last wrote any of these fields. It ignores HelmOp.
func lastManager(live *unstructured.Unstructured, paths [][]string) string {
	var last string
	var lastAt time.Time
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == fieldManager || entry.Subresource == statusField || entry.FieldsV1 == nil {
			continue
		}
		var at time.Time
		if entry.Time != nil {
			at = entry.Time.Time
		}
		if last != "" && !at.After(lastAt) {
			continue
		}
		var fields map[string]any
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err != nil {
			continue
		}
		if ownsAny(fields, live.Object, paths) {
			last, lastAt = printable(entry.Manager, maxPathLength), at
		}
	}
	return last
}

func ownsAny(fields map[string]any, live map[string]any, paths [][]string) bool {
	for _, path := range paths[:min(len(paths), maxManagedPaths)] {
		if owns(fields, live, path) {
			return true
		}
	}
	return false
}

// owns reports whether a set of fields contains the field at a path of a value, or a field below it. The set has the
// form of managedFields.
func owns(fields map[string]any, value any, path []string) bool {
	if len(path) == 0 || len(fields) == 0 {
		// A field without nested fields in the set is owned with all fields below it.
		return true
	}
	switch typed := value.(type) {
	case map[string]any:
		below, ok := fields["f:"+path[0]].(map[string]any)
		return ok && owns(below, typed[path[0]], path[1:])
	case []any:
		index, ok := parseIndex(path[0], len(typed))
		if !ok {
			return false
		}
		for key, inner := range fields {
			below, ok := inner.(map[string]any)
			if ok && isElement(key, typed[index], index) && owns(below, typed[index], path[1:]) {
				return true
			}
		}
	}
	return false
}

// isElement reports whether a key of managedFields identifies an element of a list: "k:" by some of its fields, "v:" by
// its value, "i:" by its index.
func isElement(key string, element any, index int) bool {
	kind, text, _ := strings.Cut(key, ":")
	var parsed any
	if json.Unmarshal([]byte(text), &parsed) != nil {
		return false
	}
	switch kind {
	case "v":
		return reflect.DeepEqual(parsed, element)
	case "i":
		return fmt.Sprint(parsed) == strconv.Itoa(index)
	case "k":
		keys, _ := parsed.(map[string]any)
		fields, _ := element.(map[string]any)
		for name, value := range keys {
			if !reflect.DeepEqual(fields[name], value) {
				return false
			}
		}
		return len(keys) > 0
	}
	return false
}
