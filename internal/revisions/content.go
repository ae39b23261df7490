// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// minShared is the smallest size of a field that revisions share, in bytes.
const minShared = 1 << 10

// part is a field of a spec that may be large.
type part struct {
	// from returns the field in which a revision stores the number of the revision that holds the field; 0 means the
	// revision itself.
	from func(*addonsv1.RevisionContent) *int64

	// of returns the field.
	of func(*addonsv1.HelmOpSpec) any

	isSame func(a, b *addonsv1.HelmOpSpec) bool

	// copy copies the field from one spec to another. If the source spec is empty, it removes the field.
	copy func(to, from *addonsv1.HelmOpSpec)
}

// parts are all fields that may be large.
var parts = []part{
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.Values },
		of:     func(s *addonsv1.HelmOpSpec) any { return s.Values },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return bytes.Equal(raw(a.Values), raw(b.Values)) },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.Values = from.Values },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.ValuesTemplate },
		of:     func(s *addonsv1.HelmOpSpec) any { return s.ValuesTemplate },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return a.ValuesTemplate == b.ValuesTemplate },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.ValuesTemplate = from.ValuesTemplate },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.PostRender },
		of:     func(s *addonsv1.HelmOpSpec) any { return s.PostRender },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return equality.Semantic.DeepEqual(a.PostRender, b.PostRender) },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.PostRender = from.PostRender },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.Overrides },
		of:     func(s *addonsv1.HelmOpSpec) any { return s.Overrides },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return equality.Semantic.DeepEqual(a.Overrides, b.Overrides) },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.Overrides = from.Overrides },
	},
}

func raw(json *apiextensionsv1.JSON) []byte {
	if json == nil {
		return nil
	}
	return json.Raw
}

// sizeOf returns the size of a field or of an object in JSON, as the API server stores it.
func sizeOf(field any) int {
	text, err := json.Marshal(field)
	if err != nil {
		// Only a raw value that is not JSON has no text. The API server does not store it.
		return 0
	}
	return len(text)
}

// CopyPresent copies the fields that every revision of a HelmOp takes from the present HelmOp: they select Clusters and
// control the rollout, the deletion and the storage. A revision does not store them.
func CopyPresent(to, from *addonsv1.HelmOpSpec) {
	to.ClusterSelector, to.ClusterNamespaces = from.ClusterSelector, from.ClusterNamespaces
	to.ClusterOptions, to.ManagementCluster = from.ClusterOptions, from.ManagementCluster
	to.Paused, to.DeletionPolicy, to.Rollout = from.Paused, from.DeletionPolicy, from.Rollout
	to.Storage, to.Maintenance, to.Preflight = from.Storage, from.Maintenance, from.Preflight
}

// Share removes large fields from the spec of a new revision if an earlier revision stores the same field. It records
// the number of the earlier revision.
func Share(spec *addonsv1.HelmOpRevisionSpec, earlier []*addonsv1.HelmOpRevision) {
	for _, p := range parts {
		if sizeOf(p.of(&spec.HelmOp)) < minShared {
			continue
		}
		for _, holder := range slices.Backward(earlier) {
			if *p.from(&holder.Spec.ContentFrom) == 0 && p.isSame(&holder.Spec.HelmOp, &spec.HelmOp) {
				*p.from(&spec.ContentFrom) = holder.Spec.Number
				p.copy(&spec.HelmOp, &addonsv1.HelmOpSpec{})
				break
			}
		}
	}
}

// Holders returns the numbers of the other revisions that store fields for a revision.
func Holders(spec *addonsv1.HelmOpRevisionSpec) []int64 {
	var holders []int64
	for _, p := range parts {
		if from := *p.from(&spec.ContentFrom); from != 0 && !slices.Contains(holders, from) {
			holders = append(holders, from)
		}
	}
	return holders
}

// Complete restores the fields that other revisions of the list store. The values of fields are shared and not copied.
// If the revision that stores a field is not in the list, the field stays empty. The digest then differs, so HelmOp
// does not render the incomplete revision.
func Complete(revisions []*addonsv1.HelmOpRevision) {
	byNumber := make(map[int64]*addonsv1.HelmOpRevision, len(revisions))
	for _, revision := range revisions {
		byNumber[revision.Spec.Number] = revision
	}
	for _, revision := range revisions {
		for _, p := range parts {
			from := *p.from(&revision.Spec.ContentFrom)
			if holder := byNumber[from]; from != 0 && holder != nil && *p.from(&holder.Spec.ContentFrom) == 0 {
				p.copy(&revision.Spec.HelmOp, &holder.Spec.HelmOp)
			}
		}
	}
}
