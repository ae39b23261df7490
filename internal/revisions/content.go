// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"bytes"
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

	// size returns the size of the field, in bytes.
	size func(*addonsv1.HelmOpSpec) int

	isSame func(a, b *addonsv1.HelmOpSpec) bool

	// copy copies the field from one spec to another. If the source spec is empty, it removes the field.
	copy func(to, from *addonsv1.HelmOpSpec)
}

// parts are all fields that may be large.
var parts = []part{
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.Values },
		size:   func(s *addonsv1.HelmOpSpec) int { return len(raw(s.Values)) },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return bytes.Equal(raw(a.Values), raw(b.Values)) },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.Values = from.Values },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.ValuesTemplate },
		size:   func(s *addonsv1.HelmOpSpec) int { return len(s.ValuesTemplate) },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return a.ValuesTemplate == b.ValuesTemplate },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.ValuesTemplate = from.ValuesTemplate },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.PostRender },
		size:   func(s *addonsv1.HelmOpSpec) int { return sizeOfPostRender(s.PostRender) },
		isSame: func(a, b *addonsv1.HelmOpSpec) bool { return equality.Semantic.DeepEqual(a.PostRender, b.PostRender) },
		copy:   func(to, from *addonsv1.HelmOpSpec) { to.PostRender = from.PostRender },
	},
	{
		from:   func(c *addonsv1.RevisionContent) *int64 { return &c.Overrides },
		size:   func(s *addonsv1.HelmOpSpec) int { return sizeOfOverrides(s.Overrides) },
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

func sizeOfPostRender(postRender *addonsv1.PostRender) int {
	if postRender == nil {
		return 0
	}
	size := 0
	for i := range postRender.Patches {
		size += len(postRender.Patches[i].Patch)
	}
	return size
}

func sizeOfOverrides(overrides []addonsv1.Override) int {
	size := 0
	for i := range overrides {
		size += len(raw(overrides[i].Values)) + len(overrides[i].ValuesTemplate) + sizeOfPostRender(overrides[i].PostRender)
	}
	return size
}

// Share removes large fields from the spec of a new revision if an earlier revision stores the same field. It records
// the number of the earlier revision.
func Share(spec *addonsv1.HelmOpRevisionSpec, earlier []*addonsv1.HelmOpRevision) {
	for _, p := range parts {
		if p.size(&spec.HelmOp) < minShared {
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
