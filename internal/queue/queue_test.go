// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

// TestResyncsSpread checks that the resyncs of a fleet do not happen at the same time.
func TestResyncsSpread(t *testing.T) {
	t.Parallel()
	const period = 10 * time.Minute
	inMinute := map[int]int{}
	for i := range 1000 {
		release := controllertest.UpToDateRelease(fmt.Sprintf("%08x", i*7919))
		next := WithinResync(0, period, release)
		if next > period*11/10 || next < period*9/10 || next != WithinResync(time.Hour, period, release) {
			t.Fatalf("the next pass is due after %s", next)
		}
		inMinute[int((next-period*9/10)/(15*time.Second))]++
		if retry := Spread(time.Minute, release); retry < 48*time.Second || retry > 72*time.Second {
			t.Fatalf("a retry is due after %s", retry)
		}
	}
	for slice, n := range inMinute {
		if n > 200 {
			t.Errorf("%d of 1000 come in 15 s (the %dth)", n, slice)
		}
	}
	release := controllertest.UpToDateRelease("one")
	if soon := WithinResync(time.Second, period, release); soon != time.Second {
		t.Errorf("what is due soon comes after %s", soon)
	}
	release.DeletionTimestamp = &metav1.Time{Time: controllertest.Noon}
	if never := WithinResync(0, period, release); never != 0 {
		t.Errorf("what is gone comes after %s", never)
	}
	if never := WithinResync(0, 0, controllertest.UpToDateRelease("one")); never != 0 {
		t.Errorf("without a period it comes after %s", never)
	}
}

// TestManagementClusterCountsAsResponsive checks that releases in the management cluster do not have a low priority:
// this cluster is not probed.
func TestManagementClusterCountsAsResponsive(t *testing.T) {
	t.Parallel()
	answers := AnswersOf(unprobed{})
	if !answers(clusterlink.Management) || answers(client.ObjectKey{Namespace: "fleet", Name: "one"}) {
		t.Errorf("management cluster: %t, another one: %t", answers(clusterlink.Management),
			answers(client.ObjectKey{Namespace: "fleet", Name: "one"}))
	}
}

// unprobed are clusters without a probe.
type unprobed struct{ clusterview.Clusters }

func (unprobed) State(client.ObjectKey) clusterlink.State { return clusterlink.State{} }
