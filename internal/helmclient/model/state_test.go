// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	one := Record{ID: "a", Revision: 1, Status: StatusSuperseded}
	two := Record{ID: "b", Revision: 2, Status: StatusDeployed}
	changedOne := Record{ID: "a", Revision: 1, Status: StatusDeployed}
	otherOne, otherTwo := Record{ID: "c", Revision: 1}, Record{ID: "c", Revision: 2}
	for name, tc := range map[string]struct {
		before, written []Record
		deleted         []types.UID
		// want is nil if the result has two records of one revision.
		want []Record
	}{
		"nothing":                    {want: []Record{}},
		"no change":                  {before: []Record{two, one}, want: []Record{two, one}},
		"first record":               {written: []Record{one}, want: []Record{one}},
		"new record":                 {before: []Record{one}, written: []Record{two}, want: []Record{two, one}},
		"changed record":             {[]Record{two, one}, []Record{changedOne}, nil, []Record{two, changedOne}},
		"deleted record":             {before: []Record{two, one}, deleted: []types.UID{"a"}, want: []Record{two}},
		"all deleted":                {before: []Record{two, one}, deleted: []types.UID{"a", "b"}, want: []Record{}},
		"created again":              {[]Record{one}, []Record{otherOne}, []types.UID{"a"}, []Record{otherOne}},
		"two of the newest revision": {before: []Record{two, one}, written: []Record{otherTwo}},
		"two of the oldest revision": {before: []Record{two, one}, written: []Record{otherOne}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := Observation{Records: tc.before}.After(&RecordChanges{Written: tc.written, Deleted: tc.deleted})
			if ok != (tc.want != nil) || !slices.Equal(got.Records, tc.want) {
				t.Errorf("%v, %t, want %v", got.Records, ok, tc.want)
			}
		})
	}
}
