// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharding

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestShardSelectors(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		manager, object string
		want            bool
	}{
		{"", "", true}, {"", "a", false}, {"", "-", false}, {"a", "a", true}, {"a", "b", false}, {"a", "", false},
		{"a", "-", false},
	} {
		has := controllertest.OfShard(tc.object)
		if got := apiutil.ShardSelector(tc.manager).Matches(labels.Set(has)); got != tc.want {
			t.Errorf("ShardSelector(%q) of %v: %v", tc.manager, has, got)
		}
		if got := apiutil.OtherShards(tc.manager).Matches(labels.Set(has)); got == tc.want {
			t.Errorf("otherShards(%q) of %v: %v", tc.manager, has, got)
		}
		if got := apiutil.IsOfShard(&metav1.ObjectMeta{Labels: has}, tc.manager); got != tc.want {
			t.Errorf("isOfShard(%q) of %v: %v", tc.manager, has, got)
		}
	}
}
