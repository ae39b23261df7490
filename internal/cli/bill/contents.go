// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// secretInName is the reason why an artifact is not known if its name contains a value from a Secret.
const secretInName = "its name contains a value from a Secret, and the list masks it; do not keep names in Secrets"

// describe sets the images and the CRDs of a release.
func (r *Release) describe(objects []*unstructured.Unstructured) {
	r.Images, r.CRDs = images.Of(objects), crdsOf(objects)
}

// mask masks values from Secrets in all texts, because users pass bills on.
func (r *Release) mask(of *preview.Release) {
	if of == nil {
		return
	}
	masker := preview.NewMasker(of.SecretValues)
	r.Message = masker.Text(r.Message)
	for i, name := range r.Images {
		r.Images[i] = masker.Text(name)
	}
	slices.Sort(r.Images)
	r.Images = slices.Compact(r.Images)
	for i := range r.CRDs {
		crd := &r.CRDs[i]
		shown := crd.String()
		crd.Name = masker.Text(crd.Name)
		for j, version := range crd.Versions {
			crd.Versions[j] = masker.Text(version)
		}
		if crd.String() != shown {
			r.Message = cmp.Or(r.Message, "CRD "+crd.Name+": "+secretInName)
		}
	}
}

// crdsOf returns the CustomResourceDefinitions among objects, sorted by name.
func crdsOf(objects []*unstructured.Unstructured) []CRD {
	found := map[string]CRD{}
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := CRD{Name: object.GetName(), Versions: []string{}}
		versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
		for _, version := range versions {
			fields, _ := version.(map[string]any)
			if name, _ := fields["name"].(string); name != "" {
				crd.Versions = append(crd.Versions, name)
			}
		}
		found[crd.Name] = crd
	}
	var crds []CRD
	for _, name := range slices.Sorted(maps.Keys(found)) {
		crds = append(crds, found[name])
	}
	return crds
}

// groups combines Clusters with the same releases, the largest group first.
func (m *making) groups() []Group {
	groups := []Group{}
	index := map[string]int{}
	for _, cluster := range slices.SortedFunc(maps.Values(m.clusters), func(a, b *contents) int {
		return strings.Compare(a.title, b.title)
	}) {
		slices.SortFunc(cluster.releases, func(a, b Release) int { return strings.Compare(a.HelmOp, b.HelmOp) })
		// Marshalling strings and lists of strings cannot fail.
		data, _ := json.Marshal(cluster.releases)
		at, ok := index[string(data)]
		if !ok {
			at = len(groups)
			index[string(data)] = at
			groups = append(groups, Group{Releases: cluster.releases})
		}
		group := &groups[at]
		group.Clusters = append(group.Clusters, cluster.title)
		if cluster.isOffline {
			group.Offline = append(group.Offline, cluster.title)
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return cmp.Compare(len(b.Clusters), len(a.Clusters)) })
	return groups
}

// sorted returns artifacts, sorted by name.
func sorted[T any](all map[string]*found[T]) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name].artifact)
	}
	return list
}
