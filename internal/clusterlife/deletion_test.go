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
		"none":                   {cluster: controllertest.DeletingCluster("", false)},
		"none, paused by a user": {cluster: controllertest.DeletingCluster("", true), paused: true},
		"on":                     {cluster: controllertest.DeletingCluster(controllertest.HeldSince, true), on: true},
		"over": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, false),
			over: true},
		"over, paused by a user": {cluster: controllertest.DeletingCluster(apiutil.DeletionHoldOver, true),
			over: true, paused: true},
		"malformed":                     {cluster: controllertest.DeletingCluster("yes", true), paused: true},
		"restored Cluster, not deleted": {cluster: alive, paused: true},
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
		t.Error("the Cluster with the paused annotation is not paused")
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
		"no beforeClusterDelete": {hold: controllertest.HeldSince, release: none},
		"before the hold":        {release: controllertest.HoldingRelease(time.Minute), want: true},
		"during the hold": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), want: true},
		"default timeout": {hold: controllertest.HeldSince, release: withDefaults, want: true},
		"timed out": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(5 * time.Minute)},
		"the hold is over": {hold: apiutil.DeletionHoldOver,
			release: controllertest.HoldingRelease(time.Hour)},
		"release orphaned": {hold: controllertest.HeldSince, release: orphan},
		"HelmOp orphans": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour),
			helmOp:  func(h *addonsv1.HelmOp) { h.Spec.DeletionPolicy = addonsv1.DeletionPolicyOrphan }},
		"HelmOp paused": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.Spec.Paused = true }},
		"HelmOp under deletion": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour),
			helmOp:  func(h *addonsv1.HelmOp) { h.DeletionTimestamp = &metav1.Time{Time: controllertest.LifeNow} }, want: true},
		"HelmOp re-created": {hold: controllertest.HeldSince,
			release: controllertest.HoldingRelease(time.Hour), helmOp: func(h *addonsv1.HelmOp) { h.UID = "another" }},
		"release of another namespace": {hold: controllertest.HeldSince,
			release: controllertest.OfNamespace("tenant", controllertest.HoldingRelease(time.Hour)),
			helmOp:  func(h *addonsv1.HelmOp) { h.Namespace = "tenant" }},
		"release paused": {hold: controllertest.HeldSince, release: paused},
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
		t.Error("a release without a HelmOp must be uninstalled")
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
		"no timeout of the user": {hold: controllertest.HeldSince,
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

func TestParseUpgradeHold(t *testing.T) {
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
