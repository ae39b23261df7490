// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory names the objects of releases: which there are, which of them a rule means, and which have a health
// of their own. It is pure.
package inventory

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref names an object in a cluster. It is comparable.
type Ref struct {
	// Group, Version and Kind are those of the manifest; Group is empty for the core group.
	Group, Version, Kind string
	// Namespace is empty for objects that have none.
	Namespace string
	Name      string
}

// GroupVersionKind returns the kind of the object.
func (r Ref) GroupVersionKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}

// APIVersion returns group and version as manifests write them.
func (r Ref) APIVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
}

// String returns the object as people write it, for example "Deployment kube-system/coredns".
func (r Ref) String() string {
	return fmt.Sprintf("%s %s", r.Kind, strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
}

// Selector chooses objects. What is empty chooses all; what is set must all match.
type Selector struct {
	// Group, Version, Kind, Name and Namespace are regular expressions for the whole text.
	Group, Version, Kind, Name, Namespace string
	// LabelSelector and AnnotationSelector are as kubectl writes label selectors.
	LabelSelector, AnnotationSelector string
}
