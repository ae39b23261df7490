// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"cmp"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// VersionCount is the number of Clusters with a version of a chart.
type VersionCount struct {
	Namespace string `json:"namespace"`
	HelmOp    string `json:"helmOp"`
	Chart     string `json:"chart"`
	// Version is the observed version; empty for releases that are not installed.
	Version string `json:"version"`
	// Desired is true if the HelmOp resolved its source to the version.
	Desired bool `json:"desired"`
	// Newer are the newest version that the HelmOp accepts, and the newest version in the registry, if they are newer than
	// Version.
	Newer    []string `json:"newer,omitempty"`
	Clusters []string `json:"clusters"`
}

// CountVersions counts releases by HelmOp and observed version. wanted are the names of HelmOps. Without names, it
// counts all HelmOps.
func CountVersions(helmOps map[client.ObjectKey]*addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease,
	wanted []string,
) []VersionCount {
	var counts []VersionCount
	type versionKey struct{ Namespace, HelmOp, Chart, Version string }
	index := map[versionKey]int{}
	for _, release := range releases {
		name := apiutil.HelmOpOf(release)
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		key := versionKey{Namespace: release.Namespace, HelmOp: name}
		if observed := release.Status.Release; observed != nil {
			key.Chart, key.Version = observed.Chart, observed.Version
		}
		at, ok := index[key]
		if !ok {
			at = len(counts)
			index[key] = at
			helmOp := helmOps[client.ObjectKey{Namespace: key.Namespace, Name: key.HelmOp}]
			counts = append(counts, VersionCount{
				Namespace: key.Namespace, HelmOp: key.HelmOp, Chart: key.Chart, Version: key.Version,
				Desired: key.Version != "" && helmOp != nil && helmOp.Status.Artifact != nil &&
					helmOp.Status.Artifact.Version == key.Version,
			})
		}
		counts[at].Clusters = append(counts[at].Clusters, apiutil.ClusterTitle(release))
	}
	for i := range counts {
		slices.Sort(counts[i].Clusters)
	}
	slices.SortFunc(counts, func(a, b VersionCount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.HelmOp, b.HelmOp),
			cmp.Compare(len(b.Clusters), len(a.Clusters)), cmp.Compare(a.Version, b.Version))
	})
	return counts
}
