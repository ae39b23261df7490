// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Upgraded describes a cluster after an upgrade of Kubernetes.
type Upgraded struct {
	// KubeVersion is the new version of Kubernetes.
	KubeVersion string
	// Serves reports whether the new version of Kubernetes still serves an API of the cluster.
	Serves func(schema.GroupVersionKind) bool
}

// RenderUpgraded is Render for a cluster after an upgrade of Kubernetes. Templates see the new version, and the API
// versions of the cluster that the new version still serves.
func (e *Engine) RenderUpgraded(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any, upgraded Upgraded,
) (Result, error) {
	return e.renderFor(ctx, target, desired, options, chrt, values, upgraded.of)
}

// of changes the capabilities of a cluster to the capabilities after the upgrade.
func (u *Upgraded) of(capabilities *chartutil.Capabilities) error {
	version, err := chartutil.ParseKubeVersion(u.KubeVersion)
	if err != nil {
		return fmt.Errorf("the version of Kubernetes: %w", err)
	}
	if full, err := utilversion.ParseSemantic(u.KubeVersion); err == nil {
		version.Version = "v" + full.String() // ParseKubeVersion drops the suffixes of vendors.
	}
	capabilities.KubeVersion = *version
	isKept, hasKinds := map[string]bool{}, map[string]bool{}
	kept := chartutil.VersionSet{}
	for _, served := range capabilities.APIVersions {
		kind, ok := kindIn(served)
		if !ok {
			continue
		}
		groupVersion := kind.GroupVersion().String()
		hasKinds[groupVersion] = true
		if u.Serves(kind) {
			isKept[groupVersion] = true
			kept = append(kept, served)
		}
	}
	for _, served := range capabilities.APIVersions {
		// A group version is served while at least one of its kinds is served.
		if _, ok := kindIn(served); !ok && (isKept[served] || !hasKinds[served]) {
			kept = append(kept, served)
		}
	}
	capabilities.APIVersions = kept
	return nil
}

// ExcludingConstraint returns the kubeVersion of a chart if it excludes a version of Kubernetes. Otherwise, it returns
// "".
func ExcludingConstraint(chrt *chart.Chart, version string) string {
	if wanted := chrt.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version) {
		return wanted
	}
	return ""
}

// kindIn returns the kind in an entry of a VersionSet: GROUP/VERSION/KIND or VERSION/KIND. It returns false for an
// entry without a kind. Only kinds contain upper case letters.
func kindIn(served string) (schema.GroupVersionKind, bool) {
	at := strings.LastIndexByte(served, '/')
	if at < 0 || served[at+1:] == strings.ToLower(served[at+1:]) {
		return schema.GroupVersionKind{}, false
	}
	groupVersion, err := schema.ParseGroupVersion(served[:at])
	return groupVersion.WithKind(served[at+1:]), err == nil
}
