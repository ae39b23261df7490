// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"slices"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/images"
)

// Sources returns what to copy below a prefix, in the form of entries of a lock file that have no target yet. Artifacts
// that are below the prefix already are left out.
func (b *Bill) Sources(prefix registry.Reference) ([]mirror.Entry, error) {
	var entries []mirror.Entry
	for i := range b.Charts {
		chart := &b.Charts[i]
		host, path, err := chart.location()
		if err != nil {
			return nil, err
		}
		if chartrepo.IsURL(chart.URL) {
			entries = append(entries, mirror.Entry{Source: chart.URL + ":" + chart.Version, Version: chart.Version,
				ArchiveDigest: chart.Digest})
			continue
		}
		entry := mirror.Entry{Source: chart.URL + "@" + chart.Digest, Tag: b.tagOf(i), Digest: chart.Digest}
		if entry.Tag != "" {
			entry.Source = chart.URL + ":" + entry.Tag
		}
		if !isBelow(prefix, host, path) {
			entries = append(entries, entry)
		}
	}
	for i := range b.Images {
		image := &b.Images[i]
		ref, err := images.Parse(image.Name)
		if err != nil || isBelow(prefix, ref.Registry, ref.Repository) {
			continue // the bill says that the name is not that of an image
		}
		entries = append(entries, mirror.Entry{Source: image.Name, Tag: image.Tag,
			Digest: image.Digest, IsImage: true})
	}
	return entries, nil
}

// tagOf returns the tag of a chart. It is empty if an earlier chart of the bill has the same tag, because a tag of the
// copy refers to one of them only.
func (b *Bill) tagOf(i int) string {
	chart := &b.Charts[i]
	if slices.ContainsFunc(b.Charts[:i], func(c Chart) bool { return c.URL == chart.URL && c.Tag == chart.Tag }) {
		return ""
	}
	return chart.Tag
}

// isBelow is true for a repository that is its own place below a prefix.
func isBelow(prefix registry.Reference, host, path string) bool {
	place, err := mirror.Place(prefix, host, path)
	return err == nil && place.Registry == host && place.Repository == path
}
