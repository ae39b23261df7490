// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rolloutstate

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/verification"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
)

// TestCacheByGeneration checks that the result for a child is cached until its generation changes.
func TestCacheByGeneration(t *testing.T) {
	t.Parallel()
	memory := NewCache()
	child := controllertest.ReleaseFor("fleet", "it", addonsv1.ClusterReference{Name: "one"})
	child.UID, child.Generation, child.Spec.ValuesDigest = "u", 1, "a"
	of := func() string {
		t.Helper()
		release, err := memory.Of(child)
		if err != nil {
			t.Fatal(err)
		}
		return release.Content
	}
	first := of()
	child.Spec.ValuesDigest = "b"
	if of() != first {
		t.Error("the spec of a generation is not cached")
	}
	child.Generation = 2
	second := of()
	if second == first {
		t.Error("the cached spec of another generation is used")
	}
	child.UID, child.Spec.ValuesDigest = "v", "c"
	if of() == second {
		t.Error("the cached spec of another child is used")
	}
}

// reasonOfPull returns the reason of a release whose artifact cannot be pulled because of an error of a kind.
func reasonOfPull(kind error) string {
	return reasons.ForChart(&ocierr.Error{Op: "get blob", Kind: kind})
}

// TestHealthOfWaitingRelease checks that a release does not count as failed while it waits for its artifact or for
// another Helm action, unless it failed before with the same spec.
func TestHealthOfWaitingRelease(t *testing.T) {
	t.Parallel()
	unavailable := apierrors.NewServiceUnavailable("starting")
	failedWith := func(generation int64) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { r.Status.Failures, r.Status.LastAttemptedGeneration = 1, generation }
	}
	for name, tc := range map[string]struct {
		reason string
		before func(*addonsv1.HelmOpRelease)
		want   rollout.Health
	}{
		"upgrade failed":                    {reason: addonsv1.UpgradeFailedReason, want: rollout.HealthFailed},
		"chart invalid":                     {reason: addonsv1.ChartInvalidReason, want: rollout.HealthFailed},
		"updating":                          {reason: addonsv1.UpdatingReason},
		"registry does not answer":          {reason: addonsv1.RegistryUnreachableReason},
		"registry limits requests":          {reason: addonsv1.RegistryRateLimitedReason},
		"connection breaks":                 {reason: reasonOfPull(ocierr.ErrIntegrity)},
		"disk of the manager is full":       {reason: reasonOfPull(ocierr.ErrStore)},
		"answer of another server":          {reason: reasonOfPull(ocierr.ErrUnexpected)},
		"ingress without a backend":         {reason: reasonOfPull(ocierr.ErrNotFound)},
		"password expired":                  {reason: reasonOfPull(ocierr.ErrUnauthorized)},
		"certificate expired":               {reason: reasonOfPull(ocierr.ErrTLS)},
		"no answer for credentials":         {reason: reasons.ForChart(unavailable)},
		"no Secret with credentials":        {reason: reasons.ForChart(references.ErrReferenceNotFound)},
		"no right to read credentials":      {reason: reasons.ForChart(references.ErrReferenceForbidden)},
		"no answer for an object of values": {reason: reasons.ForRendering(render.ErrObjectRead)},
		"no Secret with values": {reason: reasons.ForRendering(references.ErrReferenceNotFound),
			want: rollout.HealthFailed},
		"artifact too large":                {reason: reasonOfPull(ocierr.ErrTooLarge), want: rollout.HealthFailed},
		"manifests invalid":                 {reason: reasonOfPull(bundle.ErrInvalidManifests), want: rollout.HealthFailed},
		"signature untrusted":               {reason: reasonOfPull(verification.ErrUntrusted), want: rollout.HealthFailed},
		"another Helm action":               {reason: addonsv1.ReleasePendingReason},
		"Helm's records cannot be read":     {reason: addonsv1.ObservationFailedReason, want: rollout.HealthFailed},
		"another Helm action after failure": {addonsv1.ReleasePendingReason, failedWith(2), rollout.HealthFailed},
		"registry after failure":            {addonsv1.RegistryUnreachableReason, failedWith(2), rollout.HealthFailed},
		"broken pull after failure":         {reasonOfPull(ocierr.ErrIntegrity), failedWith(2), rollout.HealthFailed},
		"updating after failure":            {addonsv1.UpdatingReason, failedWith(2), rollout.HealthFailed},
		"dependencies after failure":        {addonsv1.WaitingForDependenciesReason, failedWith(2), rollout.HealthFailed},
		"deleting after failure":            {reason: addonsv1.DeletingReason, before: failedWith(2)},
		"updating, spec before failed":      {reason: addonsv1.UpdatingReason, before: failedWith(1)},
		"failure of the spec before":        {reason: addonsv1.RegistryUnreachableReason, before: failedWith(1)},
	} {
		release := &addonsv1.HelmOpRelease{}
		release.Generation = 2
		if tc.before != nil {
			tc.before(release)
		}
		report.SetNotReady(release, tc.reason, "")
		if got, _ := Health(release); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestIsRetrying checks when another attempt is under way in a failed release.
func TestIsRetrying(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{
		addonsv1.UpdatingReason: true, addonsv1.FetchingArtifactReason: true, addonsv1.ImagesMissingReason: true,
		addonsv1.UpgradeFailedReason: false, addonsv1.WaitingForDependenciesReason: false,
		addonsv1.WaitingForMaintenanceReason: false, addonsv1.DeletingReason: false,
	} {
		release := &addonsv1.HelmOpRelease{}
		report.SetNotReady(release, reason, "")
		if IsRetrying(release) {
			t.Errorf("%s: a release that never failed retries", reason)
		}
		release.Status.Failures = 1
		if got := IsRetrying(release); got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
	}
}

// TestAwaitsDependencies checks that a wait counts only for the current spec of a release.
func TestAwaitsDependencies(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]bool{addonsv1.WaitingForDependenciesReason: true,
		addonsv1.UpdatingReason: false} {
		release := &addonsv1.HelmOpRelease{}
		release.Generation = 2
		if AwaitsDependencies(release) {
			t.Error("a release without conditions waits")
		}
		report.SetNotReady(release, reason, "")
		if got := AwaitsDependencies(release); got != want {
			t.Errorf("%s: %t, want %t", reason, got, want)
		}
		release.Generation++
		if AwaitsDependencies(release) {
			t.Errorf("%s: the wait of the former spec counts", reason)
		}
	}
}

// TestReadyBeforeClusterUnreachable checks for how long a release was Ready before its Cluster became unreachable. The
// time counts only for the revision that the release was Ready with, even if the Cluster was reachable for a moment.
func TestReadyBeforeClusterUnreachable(t *testing.T) {
	t.Parallel()
	ready := func(r *addonsv1.HelmOpRelease) {
		report.SetCondition(r, addonsv1.ReadyCondition, report.True, addonsv1.ReadyReason, "")
		conditions.Get(r, addonsv1.ReadyCondition).LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	notReady := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, reason, "") }
	}
	unreachable := func(r *addonsv1.HelmOpRelease) { report.Unreachable(r, "no answer") }
	assigned := func(revision int64, ago time.Duration) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			r.Generation++
			r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: revision, At: metav1.NewTime(time.Now().Add(-ago))}
		}
	}
	for name, tc := range map[string]struct {
		steps []func(*addonsv1.HelmOpRelease)
		was   bool
		want  time.Duration
	}{
		"never ready": {steps: []func(*addonsv1.HelmOpRelease){assigned(7, time.Hour),
			notReady(addonsv1.ProgressingReason), unreachable}},
		"ready": {steps: []func(*addonsv1.HelmOpRelease){assigned(7, 2*time.Hour), ready, unreachable,
			unreachable}, was: true, want: time.Hour},
		"Ready before the revision was assigned": {steps: []func(*addonsv1.HelmOpRelease){
			assigned(7, time.Minute), ready, unreachable},
			was: true, want: time.Minute},
		"Ready with the former revision": {steps: []func(*addonsv1.HelmOpRelease){assigned(6, 2*time.Hour), ready,
			assigned(7, time.Minute), unreachable}},
		"another revision assigned since": {steps: []func(*addonsv1.HelmOpRelease){
			assigned(6, 2*time.Hour), ready, unreachable,
			assigned(7, 0)}},
		"same revision assigned again since": {steps: []func(*addonsv1.HelmOpRelease){
			assigned(7, 2*time.Hour), ready, unreachable,
			assigned(7, -time.Minute)}},
		"unreachable again before a check": {steps: []func(*addonsv1.HelmOpRelease){
			assigned(7, 2*time.Hour), ready, unreachable,
			notReady(addonsv1.ProgressingReason), unreachable}, was: true, want: time.Hour},
		"failed, then unreachable again": {steps: []func(*addonsv1.HelmOpRelease){
			assigned(7, 2*time.Hour), ready, unreachable,
			notReady(addonsv1.UpgradeFailedReason), unreachable}},
		"without a rollout": {steps: []func(*addonsv1.HelmOpRelease){ready, unreachable}},
	} {
		release := &addonsv1.HelmOpRelease{}
		for _, step := range tc.steps {
			step(release)
		}
		got, was := ReadyBefore(release)
		if was != tc.was || (got-tc.want).Abs() > 10*time.Second {
			t.Errorf("%s: %s, %t; want %s, %t", name, got, was, tc.want, tc.was)
		}
	}
}

// TestIsUnderWay checks which releases become Ready without a change by others.
func TestIsUnderWay(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	notReady := func(reason string) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) { report.SetNotReady(r, reason, "") }
	}
	retried := func(generation int64) func(*addonsv1.HelmOpRelease) {
		return func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.UpdatingReason, "")
			r.Status.Failures, r.Status.LastAttemptedGeneration = 1, generation
		}
	}
	for name, tc := range map[string]struct {
		change func(*addonsv1.HelmOpRelease)
		want   bool
	}{
		"new":                    {func(r *addonsv1.HelmOpRelease) { r.Status.Conditions = nil }, true},
		"ready":                  {nil, false},
		"new spec":               {func(r *addonsv1.HelmOpRelease) { r.Generation++ }, true},
		"updating":               {notReady(addonsv1.UpdatingReason), true},
		"waits for dependencies": {notReady(addonsv1.WaitingForDependenciesReason), true},
		"failed":                 {notReady(addonsv1.InstallFailedReason), false},
		"registry unreachable":   {notReady(addonsv1.RegistryUnreachableReason), true},
		"password refused":       {notReady(addonsv1.RegistryAuthenticationFailedReason), false},
		"artifact not found":     {notReady(addonsv1.ArtifactNotFoundReason), false},
		"artifact not found for an earlier spec": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.ArtifactNotFoundReason, "")
			r.Generation++
		}, true},
		"tried again":                   {retried(2), false},
		"an earlier spec failed":        {retried(1), true},
		"unreachable":                   {func(r *addonsv1.HelmOpRelease) { report.Unreachable(r, "no answer") }, false},
		"control plane not initialized": {notReady(addonsv1.ControlPlaneNotInitializedReason), false},
		"paused": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.UpdatingReason, "")
			report.SetPaused(r, true, "the Cluster is paused")
		}, false},
		"deleted": {func(r *addonsv1.HelmOpRelease) {
			report.SetNotReady(r, addonsv1.DeletingReason, "")
			r.DeletionTimestamp = &now
		}, false},
	} {
		if got := IsUnderWay(controllertest.ReadyRelease("it", tc.change)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
