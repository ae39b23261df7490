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

package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestEventsOfReleasesGather holds that a rollout goes on soon, and that what is only counted waits longer.
func TestEventsOfReleasesGather(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		selected, updated int32
		unknown           bool
		want              time.Duration
	}{
		"nothing is known of it":           {unknown: true, want: settleDelay},
		"few Clusters":                     {selected: 4, updated: 4, want: settleDelay},
		"some wait for their turn":         {selected: 1000, updated: 999, want: 2 * time.Second},
		"all were told":                    {selected: 400, updated: 400, want: 2 * time.Second},
		"all of very many were told":       {selected: 10000, updated: 10000, want: maxSettleDelay},
		"very many, some wait their turn":  {selected: 10000, updated: 1, want: maxSettleDelay},
		"some are not selected any longer": {selected: 200, updated: 201, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "it"}}
			if !tc.unknown {
				helmOp.Status.Clusters = &addonsv1.ClusterCounts{Selected: tc.selected}
				helmOp.Status.Rollout = &addonsv1.RolloutStatus{Updated: tc.updated}
			}
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(helmOp)}
			if got := settled(storeOf(t, helmOp))(t.Context(), request); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}
