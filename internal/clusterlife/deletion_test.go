// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestHoldOf(t *testing.T) {
	t.Parallel()
	alive := controllertest.DeletingCluster(controllertest.HeldSince, true)
	alive.DeletionTimestamp = nil
	tests := map[string]struct {
		cluster  *clusterv1.Cluster
		on, over bool
		paused   bool
	}{
		"none":                         {cluster: controllertest.DeletingCluster("", false)},
		"none, and somebody paused it": {cluster: controllertest.DeletingCluster("", true), paused: true},
		"on: the pause is ours":        {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true), on: true},
		"over": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, false),
			over: true},
		"over, and somebody paused it": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, true),
			over: true, paused: true},
		"malformed, until it is mended":     {cluster: controllertest.DeletingCluster("yes", true), paused: true},
		"one that came back is not deleted": {cluster: alive, paused: true},
	}
	for name, tc := range tests {
		hold := apiutil.HoldOf(tc.cluster)
		if hold.IsOn() != tc.on || hold.Over != tc.over || apiutil.IsClusterPaused(tc.cluster) != tc.paused {
			t.Errorf("%s: %+v, paused %t", name, hold, apiutil.IsClusterPaused(tc.cluster))
		}
	}
	annotated := controllertest.DeletingCluster(controllertest.HeldSince, true)
	annotated.Annotations[clusterv1.PausedAnnotation] = ""
	if !apiutil.IsClusterPaused(annotated) {
		t.Error("the paused annotation is somebody else's and counts")
	}
}

func TestUninstallsBeforeDeletion(t *testing.T) {
	t.Parallel()
	none := controllertest.HoldingRelease(time.Hour)
	none.Spec.BeforeClusterDelete = nil
	orphan := controllertest.HoldingRelease(time.Hour)
	orphan.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan
	paused := controllertest.HoldingRelease(time.Hour)
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	withDefaults := controllertest.HoldingRelease(0)
	tests := map[string]struct {
		hold    string
		release *addonsv1.HelmOpRelease
		helmOp  func(*addonsv1.HelmOp)
		want    bool
	}{
		"it does not ask":          {hold: controllertest.HeldSince, release: none},
		"it asks, before the hold": {release: controllertest.HoldingRelease(time.Minute), want: true},
		"it asks, in time": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), want: true},
		"it asks, and the default is longer": {hold: controllertest.HeldSince, release: withDefaults, want: true},
		"its time is over": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(5 * time.Minute)},
		"the hold is over": {hold: apiutil.DeletionHoldOver,
			release: controllertest.HoldingRelease(time.Hour)},
		"it is orphaned": {hold: controllertest.HeldSince, release: orphan},
		"its HelmOp orphans it": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour),
			helmOp:  func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }},
		"its HelmOp is suspended": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }},
		"its HelmOp is being deleted": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour),
			helmOp:  func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &metav1.Time{Time: controllertest.LifeNow} }, want: true},
		"its HelmOp is another one": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.UID = "another" }},
		"it is of another namespace": {hold: controllertest.HeldSince,
			release: controllertest.OfNamespace("tenant", controllertest.HoldingRelease(time.Hour)),
			helmOp:  func(h *addonsv1.HelmOp) { h.Namespace = "tenant" }},
		"it is paused": {hold: controllertest.HeldSince, release: paused},
	}
	for name, tc := range tests {
		helmOp := controllertest.HoldingHelmOp()
		if tc.helmOp != nil {
			tc.helmOp(helmOp)
		}
		if got := UninstallsBeforeDeletion(controllertest.DeletingCluster(tc.hold, true), tc.release, helmOp,
			controllertest.LifeNow); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if UninstallsBeforeDeletion(controllertest.DeletingCluster(controllertest.HeldSince, true),
		controllertest.HoldingRelease(time.Hour), nil, controllertest.LifeNow) {
		t.Error("it has no HelmOp")
	}
}

func TestBeforeDeletionWaitsWithinTheHold(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hold    string
		timeout time.Duration
		want    model.UninstallOptions
	}{
		"no hold": {want: model.UninstallOptions{}},
		"the hold ends first": {hold: controllertest.HeldSince, timeout: time.Hour,
			want: model.UninstallOptions{Wait: true, Timeout: 7 * time.Minute}},
		"the uninstall ends first": {hold: controllertest.HeldSince, timeout: time.Minute,
			want: model.UninstallOptions{Wait: true, Timeout: time.Minute}},
		"the user says nothing": {hold: controllertest.HeldSince,
			want: model.UninstallOptions{Wait: true, Timeout: 7 * time.Minute}},
	}
	for name, tc := range tests {
		options := model.UninstallOptions{Timeout: tc.timeout}
		BeforeDeletion(&options, controllertest.DeletingCluster(tc.hold, true), controllertest.HoldingRelease(12*time.Minute),
			controllertest.LifeNow)
		if options != tc.want {
			t.Errorf("%s: %+v", name, options)
		}
	}
}

func TestUpgradeHoldIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	for _, hold := range []upgradeHold{{}, {version: "v1.35.0"}, {version: "v1.36.0+vendor.1", since: since}} {
		if got := parseUpgradeHold(hold.String()); got != hold {
			t.Errorf("%+v is read as %+v", hold, got)
		}
	}
	for _, malformed := range []string{"v1.36.0 since ever", " since ", "since",
		"v1.36.0 since 2026-11-21T22:00:00Z since"} {
		if got := parseUpgradeHold(malformed); !got.since.IsZero() {
			t.Errorf("%q has a time: %v", malformed, got)
		}
	}
}
