// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kerrors "k8s.io/apimachinery/pkg/util/errors"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// errOther has no reason of its own.
var errOther = errors.New("no")

// conflict is the error of a write to an object that another program has changed.
var conflict = apierrors.NewConflict(schema.GroupResource{}, "one", errOther)

// failedPull is an error of a pull that is repeated after a time.
type failedPull struct {
	error
	wait time.Duration
}

// Unwrap implements the interface of errors.Is.
func (f failedPull) Unwrap() []error { return []error{f.error, &artifacts.Failure{Wait: f.wait}} }

// failed returns the outcome of a failure without a delay of its own.
func failed(reason string) Outcome { return Outcome{Kind: Failed, Reason: reason} }

// TestOfReleases has the outcomes of the stages of a pass over a HelmOpRelease.
func TestOfReleases(t *testing.T) {
	t.Parallel()
	fetchingArtifact := Outcome{Kind: Waiting, Reason: addonsv1.FetchingArtifactReason, Passes: true}
	refetching := fetchingArtifact
	refetching.KeepsFailure = true
	notStored := fetchingArtifact
	notStored.Wait = requeue.BusyRetry
	updating := func(wait time.Duration) Outcome {
		return Outcome{Kind: Waiting, Reason: addonsv1.UpdatingReason, Wait: wait, Passes: true}
	}
	unreachable := Outcome{Kind: Unreachable, Reason: addonsv1.ClusterUnreachableReason, Wait: requeue.UnreachableRetry,
		Passes: true}
	answered := func(reason string) Outcome { return Outcome{Kind: Failed, Reason: reason, Answered: true} }
	pull := func(wait time.Duration) Outcome {
		outcome := failed(addonsv1.ArtifactNotFoundReason)
		outcome.Wait = wait
		return outcome
	}
	for name, tc := range map[string]struct {
		err   error
		stage Stage
		want  Outcome
	}{
		"records changed meanwhile": {helmerr.ErrStale, Observing,
			Outcome{Kind: Contended, Reason: addonsv1.UpdatingReason, Passes: true, Answered: true}},
		"no free memory":        {helmerr.ErrBusy, Acting(addonsv1.UpgradeFailedReason), updating(requeue.BusyRetry)},
		"no answer":             {helmerr.ErrUnreachable, Observing, unreachable},
		"rejected credentials":  {helmerr.ErrUnauthorized, Acting(addonsv1.UpgradeFailedReason), unreachable},
		"unreadable records":    {errOther, Observing, answered(addonsv1.ObservationFailedReason)},
		"forbidden records":     {helmerr.ErrForbidden, Observing, answered(addonsv1.ClusterForbiddenReason)},
		"a refused kubeconfig":  {connections.ErrInvalidTarget, Observing, failed(addonsv1.KubeconfigRefusedReason)},
		"no memory for records": {helmerr.ErrBusy, Observing, updating(requeue.BusyRetry)},
		"an action":             {errOther, Acting(addonsv1.UpgradeFailedReason), failed(addonsv1.UpgradeFailedReason)},
		"an action that conflicts": {helmerr.ErrConflict, Acting(addonsv1.UpgradeFailedReason),
			failed(addonsv1.ReleaseConflictReason)},
		"a write that conflicts": {conflict, Acting(addonsv1.UpgradeFailedReason), failed(addonsv1.UpgradeFailedReason)},
		"outdated values":        {assignedvalues.ErrOutdated, Rendering, updating(requeue.OutdatedRetry)},
		"a kind is being read": {fmt.Errorf("%w: %w", render.ErrObjectRead, kindcache.ErrPending), Rendering,
			updating(clusterview.KindRetry)},
		"a template": {errOther, Rendering, failed(addonsv1.TemplateFailedReason)},
		"a missing Secret": {references.ErrReferenceNotFound, Rendering,
			failed(addonsv1.ReferenceNotFoundReason)},
		"no process for an artifact": {sandbox.ErrNoChild, Fetching, updating(requeue.BusyRetry)},
		"no memory for an artifact":  {bytebudget.ErrExhausted, Fetching, updating(requeue.BusyRetry)},
		"removed from the store":     {ocierr.ErrNotStored, Fetching, notStored},
		"a pull is running":          {artifacts.ErrFetching, Fetching, fetchingArtifact},
		"a pull runs again":          {artifacts.ErrRefetching, Fetching, refetching},
		"an invalid chart":           {bundle.ErrInvalidChart, Fetching, failed(addonsv1.ChartInvalidReason)},
		"an unknown registry":        {errOther, Fetching, failed(addonsv1.ArtifactFetchFailedReason)},
		"a failed pull": {failedPull{ocierr.ErrNotFound, time.Minute}, Fetching,
			pull(time.Minute)},
		"a failed pull that is due": {failedPull{ocierr.ErrNotFound, 0}, Fetching, pull(time.Millisecond)},
	} {
		if got := Of(fmt.Errorf("wrapped: %w", tc.err), tc.stage); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestOfChecks has the outcomes of a check for an upgrade of Kubernetes.
func TestOfChecks(t *testing.T) {
	t.Parallel()
	final := func(reason string) Outcome { return Outcome{Kind: Failed, Reason: reason} }
	for name, tc := range map[string]struct {
		err  error
		want Outcome
	}{
		"a pull is running": {artifacts.ErrFetching,
			Outcome{Kind: Waiting, Reason: addonsv1.FetchingArtifactReason, Passes: true}},
		"written meanwhile": {conflict,
			Outcome{Kind: Waiting, Reason: addonsv1.UpdatingReason, Wait: requeue.OutdatedRetry, Passes: true}},
		"no version":     {&reasons.InvalidVersionError{Err: errOther}, final(addonsv1.InvalidKubernetesVersionReason)},
		"too many steps": {apilifecycle.ErrTooManySteps, final(addonsv1.InvalidKubernetesVersionReason)},
		"unresolved": {&reasons.UnresolvedError{Reason: addonsv1.RegistryErrorReason},
			final(addonsv1.UpgradeCheckFailedReason)},
		"no answer": {helmerr.ErrUnreachable,
			Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason, Passes: true}},
		"a failed pull": {failedPull{errOther, time.Hour},
			Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason, Wait: time.Hour, Passes: true}},
	} {
		if got := Of(fmt.Errorf("wrapped: %w", tc.err), Checking); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestOfHelmOps has the outcomes of the stages of a pass over a HelmOp.
func TestOfHelmOps(t *testing.T) {
	t.Parallel()
	ofCluster := func(reason string, wait time.Duration, passes bool) Outcome {
		return Outcome{Kind: Failed, Reason: reason, Wait: wait, Passes: passes}
	}
	unexpected := Outcome{Kind: Unexpected}
	for name, tc := range map[string]struct {
		err   error
		stage Stage
		want  Outcome
	}{
		"no error": {nil, Planning, Outcome{}},
		"a template": {errOther, Planning,
			Outcome{Kind: Failed, Reason: addonsv1.TemplateFailedReason, Invalid: true}},
		"an override": {&render.VariantError{}, Planning,
			Outcome{Kind: Failed, Reason: addonsv1.InvalidOverrideReason, Invalid: true}},
		"an unreadable object": {render.ErrObjectRead, Planning,
			ofCluster(addonsv1.ObjectReadFailedReason, requeue.ObjectReadRetry, true)},
		"a kind is being read": {fmt.Errorf("%w: %w", render.ErrObjectRead, kindcache.ErrPending), Planning,
			Outcome{Kind: Waiting, Reason: addonsv1.ObjectReadFailedReason, Wait: clusterview.KindRetry, Passes: true}},
		"unknown access": {selection.ErrAccessUnknown, Planning, ofCluster(addonsv1.ObjectReadFailedReason, 0, true)},
		"denied access": {&selection.AccessDeniedError{}, Planning,
			ofCluster(addonsv1.ClusterAccessDeniedReason, 0, false)},
		"an unwritten release": {reasons.ErrRecord, Planning, ofCluster(addonsv1.RecordFailedReason, 0, true)},
		"a registry fails": {&reasons.UnresolvedError{Reason: addonsv1.RegistryUnreachableReason}, Planning,
			ofCluster(addonsv1.RegistryUnreachableReason, 0, true)},
		"no such artifact": {&reasons.UnresolvedError{Reason: addonsv1.ArtifactNotFoundReason}, Planning,
			ofCluster(addonsv1.ArtifactNotFoundReason, 0, false)},
		"a missing reference": {references.ErrReferenceNotFound, Compiling,
			Outcome{Kind: Failed, Reason: addonsv1.ReferenceNotFoundReason}},
		"an invalid override": {&render.VariantError{}, Compiling,
			Outcome{Kind: Failed, Reason: addonsv1.InvalidOverrideReason}},
		"the API server fails": {errOther, Compiling, unexpected},
		"a forbidden reference": {references.ErrReferenceForbidden, Compiling,
			Outcome{Kind: Failed, Reason: addonsv1.ReferenceNotFoundReason, Wait: requeue.ObjectReadRetry}},
		"only unwritten releases": {kerrors.NewAggregate([]error{reasons.ErrRecord, reasons.ErrRecord}), Recording,
			Outcome{Kind: Failed, Reason: addonsv1.RecordFailedReason, Passes: true}},
		"also another error": {kerrors.NewAggregate([]error{reasons.ErrRecord, errOther}), Recording, unexpected},
	} {
		if got := Of(tc.err, tc.stage); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// TestIsOfChart expects that only errors which another try does not mend count against a chart.
func TestIsOfChart(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		helmerr.ErrChartFailed: true, helmerr.ErrInvalidChart: true, helmerr.ErrInvalidValues: true,
		helmerr.ErrPostRender: true, helmerr.ErrRenderLimit: true,
		helmerr.ErrUnreachable: false, helmerr.ErrStale: false, helmerr.ErrKindNotServed: false, helmerr.ErrBusy: false,
		errOther: false,
	} {
		if got := IsOfChart(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v: got %t", err, got)
		}
	}
	if IsOfChart(nil) {
		t.Error("no error counts against the chart")
	}
}
