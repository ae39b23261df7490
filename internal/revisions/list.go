// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// List has the revisions of a HelmOp by number, the newest last.
type List []*addonsv1.HelmOpRevision

// Newest returns the newest revision; nil if there is none.
func (l List) Newest() *addonsv1.HelmOpRevision {
	if len(l) == 0 {
		return nil
	}
	return l[len(l)-1]
}

// IsFirst reports whether no revision before the one with a number is known. This is so for a new HelmOp, and after a
// restore without HelmOpRevisions, whatever the number is.
func (l List) IsFirst(number int64) bool {
	return len(l) > 0 && number != 0 && number <= l[0].Spec.Number
}

// LastGood returns the number of the last known good revision: the last revision before the newest that was rolled out
// completely; 0 if there is none.
func (l List) LastGood() int64 {
	for i := len(l) - 2; i >= 0; i-- {
		if l[i].Status.Good {
			return l[i].Spec.Number
		}
	}
	return 0
}

// Numbered returns the revision with a number; nil if there is none.
func (l List) Numbered(number int64) *addonsv1.HelmOpRevision {
	for _, revision := range l {
		if revision.Spec.Number == number {
			return revision
		}
	}
	return nil
}
