// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// TestHasMade checks which objects count as created by failed revisions, by their creators and times.
func TestHasMade(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Date(2026, 11, 20, 12, 0, second, 0, time.UTC) }
	object := &resource.Info{Name: "a", Mapping: &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Kind: "A"}}}
	of := func(worked bool, since time.Time, objects ...*resource.Info) revision {
		return revision{Revision: Revision{Worked: worked, Since: since}, objects: kube.ResourceList(objects)}
	}
	foreign := func(second int) revision {
		return revision{Revision: Revision{IsForeign: true, Since: at(second)}, objects: kube.ResourceList{object}}
	}
	for name, test := range map[string]struct {
		created   int
		isMade    bool
		revisions []revision
		want      bool
	}{
		"created before":           {1, true, []revision{of(false, at(2), object)}, false},
		"created in the second":    {2, true, []revision{of(false, at(2), object)}, true},
		"in the second, by others": {2, false, []revision{of(false, at(2), object)}, false},
		"created later":            {3, true, []revision{of(false, at(2), object)}, true},
		"created later, by others": {3, false, []revision{of(false, at(2), object)}, false},
		"by the first of two revisions": {3, true, []revision{of(false, at(4), object),
			of(false, at(2), object)}, true},
		"before the revisions that have it": {3, true, []revision{of(false, at(4), object), of(false, at(2))},
			false},
		"of a revision that worked": {1, false, []revision{of(false, at(4), object), of(true, at(2), object)},
			true},
		"of another tool":                {3, false, []revision{foreign(2)}, true},
		"of another tool, in the second": {2, false, []revision{foreign(2)}, false},
		"of another tool, unknown time": {3, true, []revision{{Revision: Revision{IsForeign: true},
			objects: kube.ResourceList{object}}}, false},
		"unknown time": {3, true, []revision{of(false, time.Time{}, object)}, false},
	} {
		observed := &objectinfo.State{Created: at(test.created), IsMade: test.isMade}
		if got := (Objects{revisions: test.revisions}).HasMade(object, observed); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
