// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// history creates one revision after the other, each with the current spec of a HelmOp.
type history struct {
	stored  []*addonsv1.HelmOpRevision
	desired []addonsv1.HelmOpSpec
}

func (h *history) add(spec addonsv1.HelmOpSpec) {
	revision := &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: int64(len(h.stored) + 1), HelmOp: spec}}
	Share(&revision.Spec, h.stored)
	h.stored, h.desired = append(h.stored, revision), append(h.desired, spec)
}

func (h *history) bytes() int {
	size := 0
	for _, revision := range h.stored {
		size += Bytes(revision)
	}
	return size
}

// large returns a text of a number of KiB that begins with a word.
func large(word string, kib int) string { return word + strings.Repeat("x", kib<<10) }

func values(text string) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: []byte(fmt.Sprintf("{%q: 1}", text))}
}

// TestLargeFieldsAreStoredOnce checks that a change of the version does not store the values again, and that each
// revision is completed with its values.
func TestLargeFieldsAreStoredOnce(t *testing.T) {
	t.Parallel()
	h := &history{}
	spec := addonsv1.HelmOpSpec{
		Values: values(large("a", 900)), ValuesTemplate: large("b", 200),
		PostRender: &addonsv1.PostRender{Patches: []addonsv1.Patch{{Patch: large("c", 60)}}},
		Overrides:  []addonsv1.Override{{Name: "one", Values: values(large("d", 100))}},
	}
	for i := range 100 {
		spec.Source.Ref.Tag = fmt.Sprint("1.0.", i)
		h.add(spec)
	}
	if size := h.bytes(); size > 2<<20 {
		t.Errorf("100 revisions with the same values take %d bytes", size)
	}
	spec.ValuesTemplate = large("other", 200)
	h.add(spec)
	spec.Values, spec.Overrides = nil, nil
	h.add(spec)
	spec.ValuesTemplate, spec.Values = "small", values("small")
	h.add(spec)
	h.add(spec)
	if last := h.stored[103].Spec; len(Holders(&last)) != 1 || last.HelmOp.Values == nil ||
		last.HelmOp.ValuesTemplate != "small" {
		t.Errorf("small fields are shared, or large ones are not: %+v", last.ContentFrom)
	}
	if holders := Holders(&h.stored[100].Spec); !slices.Equal(holders, []int64{1}) {
		t.Errorf("revision 101 has fields of %v", holders)
	}
	Complete(h.stored)
	for i, revision := range h.stored {
		if !equality.Semantic.DeepEqual(revision.Spec.HelmOp, h.desired[i]) {
			t.Fatalf("revision %d differs from the spec of the HelmOp", i+1)
		}
	}
	// A completed revision still names the revision that stores its fields.
	if size := h.bytes(); size > 2<<20 {
		t.Errorf("the revisions count for %d bytes once they are complete", size)
	}
}

// TestAllFieldsCount checks that fields without a limit of their own count for the limit, in the bytes of their JSON,
// and that the selectors of overrides are shared.
func TestAllFieldsCount(t *testing.T) {
	t.Parallel()
	selector := func(text string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
			Operator: metav1.LabelSelectorOpIn, Values: []string{text}}}}
	}
	spec := addonsv1.HelmOpSpec{Overrides: []addonsv1.Override{{Name: "a", ClusterSelector: selector(large("a", 100))}}}
	h := &history{}
	h.add(spec)
	h.add(spec)
	if first, second := Bytes(h.stored[0]), Bytes(h.stored[1]); first < 100<<10 || second > 10<<10 {
		t.Errorf("the revisions take %d and %d bytes", first, second)
	}
	for name, spec := range map[string]addonsv1.HelmOpSpec{
		"names of Secrets":   {ValuesFrom: []addonsv1.ValuesReference{{Name: large("b", 100)}}},
		"escaped characters": {ValuesTemplate: strings.Repeat("<", 20<<10)},
	} {
		if size := Bytes(&addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{HelmOp: spec}}); size < 100<<10 {
			t.Errorf("%s: %d bytes", name, size)
		}
	}
}

// TestCompleteWithoutHolder checks that a field stays empty if the revision that stores the field was deleted.
func TestCompleteWithoutHolder(t *testing.T) {
	t.Parallel()
	h := &history{}
	for range 3 {
		h.add(addonsv1.HelmOpSpec{ValuesTemplate: large("a", 2)})
	}
	Complete(h.stored[1:])
	for _, revision := range h.stored[1:] {
		if revision.Spec.HelmOp.ValuesTemplate != "" {
			t.Errorf("revision %d has values without a holder", revision.Spec.Number)
		}
	}
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	const small, medium = 0, 1020
	for name, tc := range map[string]struct {
		// sizes are the sizes of the values of the revisions in KiB, and same has the revisions that share their
		// values.
		sizes []int
		same  map[int64]int64
		inUse []int64
		keep  int
		want  []int64
	}{
		"few": {sizes: []int{small, small, small}, inUse: []int64{3}, keep: 10},
		"by number": {sizes: []int{small, small, small, small}, inUse: []int64{4}, keep: 1,
			want: []int64{1, 2}},
		"keep none": {sizes: []int{small, small, small}, inUse: []int64{1, 3}, want: []int64{2}},
		"by bytes": {sizes: []int{medium, medium, medium, medium, medium, medium}, inUse: []int64{6},
			keep: 10, want: []int64{1, 2}},
		"by bytes, the oldest in use": {sizes: []int{medium, medium, medium, medium, medium, medium}, inUse: []int64{1, 2, 6},
			keep: 10, want: []int64{3, 4}},
		"all in use": {sizes: []int{medium, medium, medium, medium, medium, medium},
			inUse: []int64{1, 2, 3, 4, 5, 6}, keep: 0},
		"more in use than the rest": {sizes: []int{medium, medium, medium, medium, medium, small},
			inUse: []int64{1, 2, 3, 4, 5}, keep: 10, want: []int64{6}},
		"shared values": {sizes: []int{medium, medium, medium, medium, medium, medium},
			same: map[int64]int64{2: 1, 3: 1, 4: 1, 5: 1, 6: 1}, inUse: []int64{6}, keep: 10},
		"revision that stores values of others stays": {
			sizes: []int{medium, small, small, medium}, same: map[int64]int64{4: 1}, inUse: []int64{4}, keep: 1,
			want: []int64{2},
		},
		"until the others are deleted": {
			sizes: []int{medium, medium, small}, same: map[int64]int64{2: 1}, inUse: []int64{3}, keep: 0, want: []int64{2, 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var revisions []*addonsv1.HelmOpRevision
			for i, size := range tc.sizes {
				number := int64(i + 1)
				revision := &addonsv1.HelmOpRevision{Spec: addonsv1.HelmOpRevisionSpec{Number: number}}
				revision.Spec.HelmOp.ValuesTemplate = strings.Repeat("x", size<<10)
				revision.Spec.ContentFrom.ValuesTemplate = tc.same[number]
				revisions = append(revisions, revision)
			}
			inUse := map[int64]bool{}
			for _, number := range tc.inUse {
				inUse[number] = true
			}
			var got []int64
			for _, revision := range Surplus(revisions, inUse, tc.keep, MaxBytes) {
				got = append(got, revision.Spec.Number)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("deleted: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestIsFirst(t *testing.T) {
	t.Parallel()
	list := List{{Spec: addonsv1.HelmOpRevisionSpec{Number: 5}}, {Spec: addonsv1.HelmOpRevisionSpec{Number: 6}}}
	for number, want := range map[int64]bool{0: false, 4: true, 5: true, 6: false} {
		if got := list.IsFirst(number); got != want {
			t.Errorf("revision %d is the first one: %t", number, got)
		}
	}
	if (List{}).IsFirst(1) {
		t.Error("an unknown revision is the first one")
	}
}
