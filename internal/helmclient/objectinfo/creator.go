// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// fieldSet is a set of fields in the form of metav1.FieldsV1.
type fieldSet map[string]any

// fieldsOf returns the fields of an entry; empty if they cannot be decoded.
func fieldsOf(entry metav1.ManagedFieldsEntry) fieldSet {
	var fields fieldSet
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// within returns the fields below a field.
func (f fieldSet) within(field string) fieldSet {
	below, _ := f["f:"+field].(map[string]any)
	return below
}

// hasItself reports whether the set contains the map itself, and not only its keys.
func (f fieldSet) hasItself() bool {
	_, ok := f["."]
	return ok
}

// changesContent reports whether the set has fields outside the metadata and the status that are not part of maps or
// lists of made.
func (f fieldSet) changesContent(made fieldSet) bool {
	for field := range f {
		name := strings.TrimPrefix(field, "f:")
		if name != "metadata" && name != "status" && !made.within(name).hasItself() {
			return true
		}
	}
	return false
}

// isMadeByHelmOp reports whether HelmOp created an object. A new object of a release has labels and annotations, so the
// map of its labels and the map of its annotations belong to HelmOp. If HelmOp takes over an object of another client,
// a map that exists stays with this client. If the object had no such map, the other client usually has the content of
// the object since its creation. In the second of the creation, a controller may write the metadata, the status, or a
// part of a list or map of HelmOp, for example a CA bundle.
func isMadeByHelmOp(object *metav1.PartialObjectMetadata) bool {
	made, early := fieldSet{}, []fieldSet(nil)
	var hasLabels, hasAnnotations bool
	for _, entry := range object.ManagedFields {
		fields := fieldsOf(entry)
		switch {
		case entry.Subresource != "":
		case entry.Manager == model.FieldManager:
			metadata := fields.within("metadata")
			hasLabels = hasLabels || metadata.within("labels").hasItself()
			hasAnnotations = hasAnnotations || metadata.within("annotations").hasItself()
			maps.Copy(made, fields)
		case entry.Time == nil || !entry.Time.After(object.CreationTimestamp.Time):
			early = append(early, fields)
		}
	}
	return hasLabels && hasAnnotations && !slices.ContainsFunc(early, func(fields fieldSet) bool {
		return fields.changesContent(made)
	})
}
