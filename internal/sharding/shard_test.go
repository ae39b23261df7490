/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
		{"", "", true}, {"", "a", false}, {"", "-", false}, {"a", "a", true}, {"a", "b", false}, {"a", "", false}, {"a", "-", false},
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
