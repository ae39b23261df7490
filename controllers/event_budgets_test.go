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
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestEventBudgets(t *testing.T) {
	g := gomega.NewWithT(t)
	now := time.Unix(1_800_000_000, 0)
	budgets := newEventBudgets(func() time.Time { return now })
	helmOp := func(uid types.UID) *addonsv1.HelmOp { return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	taken := func(uid types.UID, reason string) int {
		var granted atomic.Int32
		var all sync.WaitGroup
		for range 4 * eventBurst {
			all.Go(func() {
				if budgets.take(helmOp(uid), reason) {
					granted.Add(1)
				}
			})
		}
		all.Wait()
		return int(granted.Load())
	}
	g.Expect(taken("a", "Installed")).To(gomega.Equal(eventBurst), "at once")
	g.Expect(taken("a", "Installed")).To(gomega.BeZero(), "after that")
	g.Expect(taken("a", "InstallFailed")).To(gomega.Equal(eventBurst), "for another reason")
	g.Expect(taken("b", "Installed")).To(gomega.Equal(eventBurst), "of another HelmOp")
	now = now.Add(2 * eventInterval)
	g.Expect(taken("a", "Installed")).To(gomega.Equal(2), "after two intervals")
}

// A fleet's releases have an Event each, its HelmOp has a few of them.
func TestEventsOfAFleet(t *testing.T) {
	g := gomega.NewWithT(t)
	recorder := events.NewFakeRecorder(1000)
	r := &releaseReconciler{recorder: recorder, budgets: newEventBudgets(func() time.Time { return time.Unix(1_800_000_000, 0) })}
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{UID: "fleet", Name: "fleet"}}
	const releases = 100
	for i := range releases {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("release-%d", i)}}
		r.event(&releaseScope{release: release, helmOp: helmOp}, corev1.EventTypeNormal, "Installed", "Install", "Installed it")
	}
	g.Expect(recorder.Events).To(gomega.HaveLen(releases + eventBurst))
}

// The same goes for what the lives of its Clusters bring: each Cluster and each release has its Event.
func TestEventsOfClustersLives(t *testing.T) {
	g := gomega.NewWithT(t)
	recorder := events.NewFakeRecorder(1000)
	r := &clusterReconciler{recorder: recorder, budgets: newEventBudgets(func() time.Time { return time.Unix(1_800_000_000, 0) })}
	const releases = 100
	for i := range releases {
		release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("release-%d", i), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: addonsv1.GroupVersion.String(), Kind: helmOpKind, Name: "fleet", UID: "fleet", Controller: new(true),
		}}}}
		r.eventAt(&lifeScope{object: newCluster()}, release, corev1.EventTypeNormal, addonsv1.ClusterUpgradeHeldEvent, "Hold", "Held it")
	}
	g.Expect(recorder.Events).To(gomega.HaveLen(2*releases + eventBurst))
}
