// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift finds what others changed in a cluster since Helm installed a release there, and puts it right without a
// new revision of the release.
//
// What the manifest of the release sets is compared, and nothing else: a field that others add is left alone, as Helm
// itself leaves it alone in an upgrade. An object costs one GET. Only if it does not say word by word what the manifest
// says, the API server is asked, by one PATCH as a dry run, whether that matters: "1000m" and "1" are the same.
//
// A Job that Kubernetes deletes when it is done (ttlSecondsAfterFinished) is not missed.
//
// Nothing here ever deletes an object, and no difference, error or text holds a value, only paths.
package drift

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// fieldManager is who the API server is told makes the corrections: the same as for what Helm writes.
	fieldManager = "helmop"
	// optOut on an object, as an annotation or a label with the value Disabled, leaves the object out.
	optOut      = "addons.cluster.x-k8s.io/drift-detection"
	optOutValue = "Disabled"
	// maxPaths bounds the paths that a Difference names.
	maxPaths = 10
	// maxPathLength bounds the text of a path.
	maxPathLength = 256
)

// Cluster is a connection to a cluster.
type Cluster struct {
	// Config must set a deadline for requests.
	Config *rest.Config
	Mapper meta.RESTMapper
}

// Release names the release that objects belong to. Helm marks them with it, beside what is in the manifest, and knows
// them again by that; the loss of the mark is a difference, too.
type Release struct {
	Namespace, Name string
}

// Difference is an object that is not what the manifest says.
type Difference struct {
	Ref inventory.Ref
	// Missing is true if the object does not exist.
	Missing bool
	// Paths are the first 10 fields that differ, sorted, as JSON pointers into the live object.
	Paths []string
	// More is the number of differing fields that Paths leaves out.
	More int
	// Manager is the field manager that wrote to those fields, or below them, last, as far as the API server knows. It does
	// not know who removed a field; then this is empty.
	Manager string
	// Owner is the other release, as namespace/name, that the object is marked as belonging to now. Such an object is not
	// corrected.
	Owner string
	// Refused is why the API server would refuse the correction, for example because a field is immutable; nil otherwise.
	Refused error

	// desired is what to create; nil unless Missing.
	desired *unstructured.Unstructured
	// patch is what to send otherwise.
	patch     []byte
	patchType types.PatchType
}

// String tells the difference to people, without values.
func (d Difference) String() string {
	if d.Missing {
		return d.Ref.String() + " is missing"
	}
	text := d.Ref.String() + " differs at " + strings.Join(d.Paths, ", ")
	if d.More > 0 {
		text += fmt.Sprintf(" and %d more", d.More)
	}
	if d.Manager != "" {
		text += ", changed by " + d.Manager
	}
	if d.Owner != "" {
		text += ", now belongs to release " + d.Owner
	}
	return text
}
