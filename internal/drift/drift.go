// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift finds changes that other clients made to the objects of a Helm release, and corrects them without a new
// Helm revision.
//
// It compares only the fields that the manifest sets. It keeps fields that other clients added, as a Helm upgrade does.
// One GET compares an object that literally matches the manifest. Otherwise, a PATCH as a dry run shows whether the
// difference matters: "1000m" and "1" are equal.
//
// A Job that Kubernetes deletes after its completion (ttlSecondsAfterFinished) is not a missing object.
//
// The package never deletes an object. Differences, errors and texts contain paths of fields, but no values. The
// package keeps no state except [History]. Callers decide when to compare. After a conflict, they must compare again.
package drift

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

const (
	// fieldManager is the field manager of corrections. Helm's writes use the same one.
	fieldManager = "helmop"
	// optOut is the annotation or label that excludes an object from the comparison if its value is Disabled.
	optOut      = "addons.cluster.x-k8s.io/drift-detection"
	optOutValue = "Disabled"
	// maxPaths is the largest number of paths in a Difference.
	maxPaths = 10
	// maxPathLength is the longest text of a path.
	maxPathLength = 256
)

// Cluster is a connection to a cluster.
type Cluster struct {
	// Config must set a deadline for requests.
	Config *rest.Config
	Mapper meta.RESTMapper
}

// Release is the Helm release of the objects. Helm recognizes the objects of a release by labels and annotations, so a
// missing label or annotation is a difference too.
type Release struct {
	Namespace, Name string
}

// Difference is an object that does not match the manifest.
type Difference struct {
	Ref inventory.Ref
	// Missing is true if the object does not exist.
	Missing bool
	// Paths are the first 10 fields that differ, sorted, as JSON pointers into the live object.
	Paths []string
	// More is the number of differing fields that are not in Paths.
	More int
	// Manager is the field manager that last wrote these fields, or fields below them. It is empty if the API server does
	// not record it, for example for a removed field.
	Manager string
	// Owner is the other Helm release, as namespace/name, that owns the object according to its annotations. HelmOp does
	// not correct such an object.
	Owner string
	// Refused is the error with which the API server would refuse the correction, for example because a field is
	// immutable; nil otherwise.
	Refused error

	// desired is the object to create; nil unless Missing.
	desired *unstructured.Unstructured
	// patch is the patch that corrects an existing object.
	patch     []byte
	patchType types.PatchType
	// version is the resource version of the compared object, and content the digest of its content.
	version string
	content [sha256.Size]byte
}

// WithoutContent returns the difference without the object and the patch that correct it.
func (d Difference) WithoutContent() Difference {
	d.desired, d.patch = nil, nil
	return d
}

// String describes the difference without values.
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
