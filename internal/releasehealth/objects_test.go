// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package releasehealth

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
)

func TestStateFromBeforeActionDoesNotCount(t *testing.T) {
	t.Parallel()
	present := func(uid types.UID, generation int64) objectwatch.State {
		return objectwatch.State{Exists: true, UID: uid, Generation: generation, Health: health.Current}
	}
	gone := objectwatch.State{Health: health.NotFound}
	const early, late = writtenGrace - time.Second, writtenGrace
	for name, tc := range map[string]struct {
		state     objectwatch.State
		isWell    bool
		after     time.Duration
		want      bool
		isVersion bool
	}{
		"an earlier resource version, at once":               {present("b", 1), true, early, false, true},
		"an earlier resource version from a failed watch":    {present("b", 1), false, late, false, true},
		"an earlier resource version after the grace period": {present("b", 1), true, late, true, true},
		"a later resource version":                           {present("b", 7), true, 0, true, true},
		"the generation of the action":                       {present("b", 2), true, 0, true, false},
		"the generation of the action from a failed watch":   {present("b", 2), false, 0, true, false},
		"a later generation":                                 {present("b", 3), true, 0, true, false},
		"an earlier generation":                              {present("b", 1), true, late, false, false},
		"an earlier generation from a failed watch":          {present("b", 1), false, late, false, false},
		// A re-created Job must not count as complete because the previous Job was complete.
		"the object that was replaced":                      {present("a", 2), true, early, false, false},
		"the object that was replaced, from a failed watch": {present("a", 2), false, late, false, false},
		"re-created after the action":                       {present("c", 1), true, late, true, false},
		"missing, at once":                                  {gone, true, early, false, false},
		"missing, from a failed watch":                      {gone, false, late, false, false},
		"missing after the grace period":                    {gone, true, late, true, false},
		"missing long after, from a failed watch":           {gone, false, time.Hour, false, false},
	} {
		now := time.Unix(1_800_000_000, 0)
		written := writtenBy([]inventory.Ref{controllertest.Deployment}, map[inventory.Ref]model.Generation{
			controllertest.Deployment: {UID: "b", Number: 2, IsVersion: tc.isVersion}, controllertest.ConfigMap: {UID: "x"},
		}, now)
		if got := written.isSeen(controllertest.Deployment, tc.state, tc.isWell, now.Add(tc.after)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		// An object that was observed once may be deleted: this is a new state.
		if got := written.isSeen(controllertest.Deployment, gone, false, now); got != tc.want {
			t.Errorf("%s, then gone: %t", name, got)
		}
		if tc.want && written.objects != nil {
			t.Errorf("%s: an observed object stays in memory", name)
		}
		if !written.isSeen(controllertest.ConfigMap, gone, false, now) {
			t.Errorf("%s: the generation of an object stays in memory after it was observed", name)
		}
	}
}

// TestUnseenObjectsAreNamed checks that the condition Healthy names an object that HelmOp may neither list nor get, or
// whose list has failed for some time.
func TestUnseenObjectsAreNamed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	failing := func(since time.Duration) objectwatch.State {
		return objectwatch.State{Exists: true, WatchError: &objectwatch.WatchError{Err: errors.New("listing configmaps: 500"),
			Since: now.Add(-since)}}
	}
	for name, tc := range map[string]struct {
		state objectwatch.State
		named bool
	}{
		"denied":          {objectwatch.State{Known: true, Exists: true, Denied: true}, true},
		"readable":        {objectwatch.State{Known: true, Exists: true}, false},
		"failing":         {failing(objectwatch.StuckAfter), true},
		"failing briefly": {failing(objectwatch.StuckAfter - time.Second), false},
	} {
		release := &addonsv1.HelmOpRelease{}
		config := controllertest.ConfigMap
		release.Status.Inventory = releaseinventory.Of(&release.Spec, []inventory.Ref{config}, 1)
		outcome := Assess(release, &Memory{}, Seen{Now: now,
			Snapshot: &objectwatch.Snapshot{Synced: true,
				Objects: map[inventory.Ref]objectwatch.State{config: tc.state}}})
		message := conditions.GetMessage(release, addonsv1.HealthyCondition)
		if !conditions.IsTrue(release, addonsv1.HealthyCondition) || outcome.Missing > 0 ||
			outcome.IsUnlisted == tc.state.Known || strings.Contains(message, config.String()) != tc.named ||
			tc.named && tc.state.WatchError != nil && !strings.Contains(message, "listing configmaps: 500; HelmOp tries again") {
			t.Errorf("%s: %+v, %q", name, outcome, message)
		}
	}
}
