// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"fmt"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
)

// Sources returns the artifacts to copy below a prefix, as entries of a lock file without a target. It omits artifacts
// that are already below the prefix.
func (b *Bill) Sources(prefix registry.Reference) ([]mirror.Entry, error) {
	var entries []mirror.Entry
	for i := range b.Charts {
		chart := &b.Charts[i]
		at, err := chart.placeBelow(prefix)
		if err != nil {
			return nil, err
		}
		tag, err := b.tagOf(i)
		switch {
		case err != nil:
			return nil, err
		case at.isOwn:
			continue
		case chartrepo.IsURL(chart.URL):
			entries = append(entries, mirror.Entry{Source: chart.URL + ":" + chart.Version, Version: chart.Version,
				ArchiveDigest: chart.Digest})
		case tag == "":
			entries = append(entries, mirror.Entry{Source: chart.URL + "@" + chart.Digest, Digest: chart.Digest})
		default:
			entries = append(entries, mirror.Entry{Source: chart.URL + ":" + tag, Tag: tag, Digest: chart.Digest})
		}
	}
	for i := range b.Images {
		image := &b.Images[i]
		if image.Repository == "" {
			continue // the bill already says that this is not the name of an image
		}
		at, err := image.placeBelow(prefix)
		if err != nil {
			return nil, err
		}
		if !at.isOwn {
			entries = append(entries, mirror.Entry{Source: image.Name, Tag: image.Tag, Digest: image.Digest, IsImage: true})
		}
	}
	return entries, nil
}

// tagOf returns the tag of the copy of a chart. It is empty for a chart that only pinned Clusters have: the tag must
// refer to the chart that the other Clusters install.
func (b *Bill) tagOf(i int) (string, error) {
	chart := &b.Charts[i]
	switch {
	case chartrepo.IsURL(chart.URL):
		return tagOfVersion(chart.Version), nil
	case chart.IsEarlier || chart.Tag == "":
		return "", nil
	}
	for j := range b.Charts[:i] {
		other := &b.Charts[j]
		if other.URL == chart.URL && other.Tag == chart.Tag && !other.IsEarlier {
			return "", fmt.Errorf("the list has two charts with the tag %s:%s, %s and %s, but a tag of the copy can refer to "+
				"only one of them: the tag has moved, and some HelmOps have not looked it up again; run \"kubectl helmop "+
				"reconcile\", and make the list again", chart.URL, chart.Tag, other.Digest, chart.Digest)
		}
	}
	return chart.Tag, nil
}

// place is the location of an artifact below a prefix.
type place struct {
	repository registry.Reference
	// isOwn is true if the artifact is already below the prefix. It is then not copied.
	isOwn bool
}

// placeBelow returns the location of a chart below a prefix. A chart of a chart repository is always copied: it is not
// an artifact of a registry, even if its host is the host of the prefix.
func (c *Chart) placeBelow(prefix registry.Reference) (place, error) {
	site, err := url.Parse(c.URL)
	if err != nil {
		return place{}, fmt.Errorf("%q is not a URL: %w", c.URL, err)
	}
	if chartrepo.IsURL(c.URL) {
		target, err := mirror.Target(prefix, site.Host, site.Path)
		return place{repository: target}, err
	}
	return placeOf(prefix, site.Host, strings.Trim(site.Path, "/"))
}

// placeBelow returns the location of an image below a prefix.
func (i *Image) placeBelow(prefix registry.Reference) (place, error) {
	host, path, _ := strings.Cut(i.Repository, "/")
	return placeOf(prefix, host, path)
}

// placeOf returns the location of an artifact below a prefix.
func placeOf(prefix registry.Reference, host, path string) (place, error) {
	at, err := mirror.Place(prefix, host, path)
	return place{repository: at, isOwn: at.Registry == host && at.Repository == path}, err
}
