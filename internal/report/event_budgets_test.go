// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestEventBudgets(t *testing.T) {
	g := gomega.NewWithT(t)
	now := time.Unix(1_800_000_000, 0)
	budgets := NewEventBudgets(func() time.Time { return now })
	helmOp := func(uid types.UID) *addonsv1.HelmOp { return &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{UID: uid}} }
	taken := func(uid types.UID, reason string) int {
		var granted atomic.Int32
		var all sync.WaitGroup
		for range 4 * EventBurst {
			all.Go(func() {
				if budgets.Take(helmOp(uid), reason) {
					granted.Add(1)
				}
			})
		}
		all.Wait()
		return int(granted.Load())
	}
	g.Expect(taken("a", "Installed")).To(gomega.Equal(EventBurst), "at once")
	g.Expect(taken("a", "Installed")).To(gomega.BeZero(), "after that")
	g.Expect(taken("a", "InstallFailed")).To(gomega.Equal(EventBurst), "for another reason")
	g.Expect(taken("b", "Installed")).To(gomega.Equal(EventBurst), "of another HelmOp")
	now = now.Add(2 * eventInterval)
	g.Expect(taken("a", "Installed")).To(gomega.Equal(2), "after two intervals")
}
