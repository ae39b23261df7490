// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory has references to the objects of releases, selectors of these objects, and the list of kinds that
// are healthy if they exist. All its functions are pure: they send no requests. Other packages use a [Ref] as a key of
// maps.
package inventory

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref is a reference to an object in a cluster. It is comparable.
type Ref struct {
	// Group, Version and Kind are as in the manifest; Group is empty for the core group.
	Group, Version, Kind string
	// Namespace is empty for cluster-scoped objects.
	Namespace string
	Name      string
}

// GroupVersionKind returns the kind of the object.
func (r Ref) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// APIVersion returns group and version in the form of the field apiVersion.
func (r Ref) APIVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// String returns the object in the form for messages, for example "Deployment kube-system/coredns".
func (r Ref) String() string {
	return fmt.Sprintf("%s %s", r.Kind, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
}

// Selector selects objects. An empty field matches all objects; an object must match all fields that are set.
type Selector struct {
	// Group, Version, Kind, Name and Namespace are regular expressions that must match the whole text.
	Group, Version, Kind, Name, Namespace string
	// LabelSelector and AnnotationSelector have the syntax of label selectors in kubectl.
	LabelSelector, AnnotationSelector string
}
