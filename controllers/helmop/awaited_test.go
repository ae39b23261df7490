// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmopstatus"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// TestMovedReleaseAwaitsCluster checks which release stays while its Cluster does not exist. clusterctl move creates
// the Cluster of a ClusterClass and its HelmOpReleases in any order. A Cluster that HelmOp has found in this management
// cluster was deleted. An awaited Cluster counts like a paused one.
func TestMovedReleaseAwaitsCluster(t *testing.T) {
	t.Parallel()
	const own = "system"
	for name, tc := range map[string]struct {
		managers    string
		annotations map[string]string
		cluster     string
		awaited     bool
	}{
		"moved":                                     {managers: "former", awaited: true},
		"moved, and a user paused it":               {managers: "former", annotations: paused, awaited: true},
		"moved twice, the first not complete":       {managers: "second, first", awaited: true},
		"moved back before the end of the takeover": {managers: "former," + own, awaited: true},
		"moved, and the takeover has begun":         {managers: own + ",former"},
		"moved, and the Cluster was deleted":        {managers: "former", cluster: "uid"},
		"moved, but not wanted": {managers: "former",
			annotations: map[string]string{addonsv1.OrphanAnnotation: "true"}},
		"not moved":                 {managers: own},
		"of an older version":       {},
		"not moved, and just found": {managers: own, cluster: "uid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _, release := controllertest.ShardedObjects("", "", "")
			release.Annotations = map[string]string{addonsv1.ManagementClusterAnnotation: tc.managers}
			for key, value := range tc.annotations {
				release.Annotations[key] = value
			}
			release.Status = addonsv1.HelmOpReleaseStatus{}
			release.Status.ClusterUID = tc.cluster
			_, live := controllertest.ShardStores(t, "", h, release)
			r := &Reconciler{client: live, live: live, now: time.Now}
			scope := &helmOpScope{helmOp: h, artifact: &addonsv1.ResolvedArtifact{}}
			if err := r.addUnlisted(t.Context(), scope, selectorOf(t, true),
				map[client.ObjectKey]*addonsv1.HelmOpRelease{apiutil.ClusterKey(release): release}); err != nil {
				t.Fatal(err)
			}
			waves := []labels.Selector{labels.Nothing()}
			planned, err := plannedCluster(scope.clusters[0], 0, "", rolloutstate.NewCache())
			if err != nil {
				t.Fatal(err)
			}
			planned.Wave = waveOf(scope.clusters[0], waves)
			if planned.Gone == tc.awaited || planned.Paused != tc.awaited || planned.Wave == 0 != tc.awaited {
				t.Errorf("the plan has the Cluster %+v", planned)
			}
			want := rollout.ActionDelete
			if tc.awaited {
				want = rollout.ActionNone
			}
			scope.plan = rollout.Plan(rollout.Input{Clusters: []rollout.Cluster{planned}, Now: time.Now(),
				Strategy: rollout.Strategy{Waves: []rollout.Wave{{Name: "canary"}}}})
			if got := scope.plan.Steps[0].Action; got != want {
				t.Errorf("the step is %s, want %s", got, want)
			}
			if in := r.deletionInput(scope, []rollout.Cluster{planned}); in.Total != in.Blocked || len(in.Pending) != 0 {
				t.Errorf("the limit of deletions counts the release: %+v", in)
			}
			if err := r.render(t.Context(), scope); err != nil {
				t.Error(err)
			}
			status := helmopstatus.Of(scope.statusPass(time.Now()))
			waits := tc.awaited && !apiutil.IsChildPaused(release)
			if status.Counts.Waiting == 1 != waits || strings.Contains(status.Ready.Message, "does not exist yet") != waits {
				t.Errorf("the status is %+v", status)
			}
		})
	}
}

// paused is the annotation that pauses a release.
var paused = map[string]string{clusterv1.PausedAnnotation: ""}
