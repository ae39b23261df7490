// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apilifecycle finds out whether a version of Kubernetes still serves an API, since when the API is deprecated,
// and what replaces it.
//
// # Contract
//
//   - APIs of Kubernetes: the package reads generated methods of the Go types in k8s.io/api and
//     k8s.io/apiextensions-apiserver (APILifecycleDeprecated, APILifecycleRemoved, APILifecycleReplacement). The
//     package itself has no list of APIs. For versions of Kubernetes that are newer than these modules, the methods
//     state the plans of the Kubernetes project.
//   - APIs of CustomResourceDefinitions: the package reads the definitions in the cluster and in the chart, see
//     [Definitions]. Their stages do not depend on the version of Kubernetes.
//   - The package reads no cluster: the caller passes the definitions and the kinds that the cluster serves.
//
// # What the modules do not know
//
// The Kubernetes project deletes the Go types of an API some releases after the removal of the API. v0.37 of k8s.io/api
// has no types for autoscaling/v2beta1 and v2beta2 (removed in v1.25 and v1.26), for PodSecurityPolicy of
// policy/v1beta1 and extensions/v1beta1 (v1.25 and v1.16), and for batch/v2alpha1 (v1.21): see
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/. The stage of such an API is [Unknown] if the
// modules have its group. The stage is also Unknown for alpha and beta versions whose types have no lifecycle methods.
// In v0.37, these are v1alpha1 of rbac.authorization.k8s.io and of node.k8s.io (removed in v1.22 and v1.25), v1alpha1
// of internal.apiserver.k8s.io, and v1alpha3 of scheduling.k8s.io. The package cannot distinguish some groups of
// Kubernetes from groups of other projects: groups that were removed as a whole (settings.k8s.io), and groups in other
// modules (apiregistration.k8s.io). The modules state some deprecations only in comments, because no removal is planned
// (Endpoints and ComponentStatus of v1). The package does not report them.
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

// Lifecycle holds the known facts about an API.
type Lifecycle struct {
	// Introduced, Deprecated and Removed are the versions of Kubernetes that first had the API, first deprecated it, and
	// first did not serve it. Each is zero if there is no such version. All are zero for CustomResourceDefinitions.
	Introduced, Deprecated, Removed Version

	// Replacement is the API to use instead; empty if none is known.
	Replacement schema.GroupVersionKind

	// IsUndated means that the modules have the kind in an alpha or beta version, but not the versions of Kubernetes that
	// serve the API.
	IsUndated bool

	// Warning is the deprecation warning of the CustomResourceDefinition; empty if it has none.
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

// newestOf returns a kind in its newest version in the modules that is not deprecated; empty if there is none.
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
