// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apilifecycle finds out whether a version of Kubernetes still serves an API, since when the API is deprecated,
// and what replaces it.
//
// # Contract
//
//   - APIs of Kubernetes: the methods that the project generates on the Go types of k8s.io/api and of
//     k8s.io/apiextensions-apiserver (APILifecycleDeprecated, APILifecycleRemoved, APILifecycleReplacement). The
//     package has no list of its own. Versions later than the modules are plans of the Kubernetes project.
//   - APIs of CustomResourceDefinitions: the definitions of the cluster and of the chart, see [Definitions]. They do
//     not depend on the version of Kubernetes.
//   - It reads no cluster: the caller passes the definitions and what the cluster serves.
//
// # What the modules do not know
//
// The Kubernetes project deletes the Go types of an API some releases after its removal. v0.37 of k8s.io/api has no
// types any more for autoscaling/v2beta1 and v2beta2 (not served since v1.25 and v1.26), PodSecurityPolicy of
// policy/v1beta1 and extensions/v1beta1 (v1.25 and v1.16), and batch/v2alpha1 (v1.21): see
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/ for these removals. For such an API, in a group
// that the modules have, the stage is [Unknown]. It is also Unknown for alpha and beta versions whose types have no
// lifecycle: v0.37 has v1alpha1 of rbac.authorization.k8s.io and of node.k8s.io (not served since v1.22 and v1.25),
// v1alpha1 of internal.apiserver.k8s.io, and v1alpha3 of scheduling.k8s.io. Groups that are gone as a whole
// (settings.k8s.io), or are in other modules (apiregistration.k8s.io), look like groups of other projects. Deprecations
// without a removal are comments in the modules (Endpoints and ComponentStatus of v1), and are not reported.
package apilifecycle

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
)

// types has the Go types of the APIs of Kubernetes.
var types = newTypes()

func newTypes() *runtime.Scheme {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme,
		apiextensionsv1beta1.AddToScheme} {
		utilruntime.Must(add(all))
	}
	return all
}

// Lifecycle is what is known about an API.
type Lifecycle struct {
	// Introduced, Deprecated and Removed are the first versions of Kubernetes in which the API exists, in which it is
	// deprecated, and in which it is not served; zero if there is none, and for CustomResourceDefinitions.
	Introduced, Deprecated, Removed Version

	// Replacement is the API to use instead; empty if none is known.
	Replacement schema.GroupVersionKind

	// IsUndated means that the modules have the kind in an alpha or beta version, and do not say in which versions of
	// Kubernetes the API is served.
	IsUndated bool

	// Warning is the text of the CustomResourceDefinition about the deprecation; empty if it has none.
	Warning string
}

// OfKubernetes returns the lifecycle of an API of Kubernetes. It returns false for a kind that the modules do not know.
func OfKubernetes(kind schema.GroupVersionKind) (Lifecycle, bool) {
	object, err := types.New(kind)
	if err != nil {
		return Lifecycle{}, false
	}
	var known Lifecycle
	if with, isDated := object.(interface{ APILifecycleIntroduced() (major, minor int) }); isDated {
		known.Introduced = versionOf(with.APILifecycleIntroduced())
	} else {
		known.IsUndated = isPrerelease(kind.Version)
	}
	if with, ok := object.(interface{ APILifecycleDeprecated() (major, minor int) }); ok {
		known.Deprecated = versionOf(with.APILifecycleDeprecated())
	}
	if with, ok := object.(interface{ APILifecycleRemoved() (major, minor int) }); ok {
		known.Removed = versionOf(with.APILifecycleRemoved())
	}
	if with, ok := object.(interface {
		APILifecycleReplacement() schema.GroupVersionKind
	}); ok {
		known.Replacement = with.APILifecycleReplacement()
	}
	return known, true
}

// isPrerelease reports whether a version of an API is an alpha or beta version.
func isPrerelease(apiVersion string) bool {
	return strings.Contains(apiVersion, "alpha") || strings.Contains(apiVersion, "beta")
}

// IsOfKubernetes reports whether a group has APIs of Kubernetes.
func IsOfKubernetes(group string) bool { return types.IsGroupRegistered(group) }

// newestOf returns a kind in the newest version that the modules know and that is not deprecated; empty if there is
// none.
func newestOf(kind schema.GroupKind) schema.GroupVersionKind {
	versions := types.VersionsForGroupKind(kind)
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	for _, candidate := range versions {
		if known, ok := OfKubernetes(kind.WithVersion(candidate.Version)); ok && known.Removed.IsZero() && !known.IsUndated {
			return kind.WithVersion(candidate.Version)
		}
	}
	return schema.GroupVersionKind{}
}
