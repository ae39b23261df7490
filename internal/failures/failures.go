// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apilifecycle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/assignedvalues"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// Kind is what a failure means for the object.
type Kind string

const (
	// Waiting is no failure: what the step needs is on its way. The conditions have the reason.
	Waiting Kind = "Waiting"

	// Contended means that another program has changed the release. The conditions have the reason, and the delay until
	// the next pass grows. There is no Event.
	Contended Kind = "Contended"

	// Unreachable means that the API server of the Cluster does not answer. ClusterReachable and Ready have the reason;
	// what is known of the release stays.
	Unreachable Kind = "Unreachable"

	// Failed means that the object cannot have its desired state. The conditions and a Warning Event have the reason.
	Failed Kind = "Failed"

	// Unexpected means a failure of the controller. No condition has it: controller-runtime logs the error and repeats
	// the pass.
	Unexpected Kind = "Unexpected"
)

// Outcome is how a reconciler handles an error.
type Outcome struct {
	Kind Kind

	// Reason is the reason of the conditions; empty for Unexpected.
	Reason string

	// Wait is the delay until the next pass. 0 means the next event or, if BacksOff is true, a delay that grows.
	Wait time.Duration

	// BacksOff is true if the delay grows with each failure that has the same reason.
	BacksOff bool

	// KeepsFailure is true if a failure that is reported already stays reported.
	KeepsFailure bool

	// Passes is true if the failure may end without a change by a user.
	Passes bool
}

// Stage is the part of a pass in which an error occurred.
type Stage struct {
	name     stageName
	fallback string
}

type stageName int

const (
	acting stageName = iota
	rendering
	fetching
	checking
	planning
	compiling
	recording
)

// The stages of a pass over a HelmOpRelease, besides [Acting].
var (
	// Observing reads Helm's records.
	Observing = Acting(addonsv1.ObservationFailedReason)

	// Rendering renders the assigned values.
	Rendering = Stage{name: rendering}

	// Fetching pulls, verifies and parses the chart.
	Fetching = Stage{name: fetching}

	// Checking checks the release for an upgrade of Kubernetes. Only the condition KubernetesUpgradeReady has its
	// failures.
	Checking = Stage{name: checking}
)

// The stages of a pass over a HelmOp.
var (
	// Compiling compiles a HelmOp revision for all Clusters.
	Compiling = Stage{name: compiling}

	// Planning renders the release of one Cluster and writes the HelmOpRelease. The status of the HelmOp lists the
	// failures by Cluster.
	Planning = Stage{name: planning}

	// Recording is the end of a pass: the error has the errors of all writes.
	Recording = Stage{name: recording}
)

// Acting returns the stage of an action of Helm. The fallback is the reason for an error that has no reason of its own.
func Acting(fallback string) Stage { return Stage{name: acting, fallback: fallback} }

// Of returns how an error of a stage is handled.
func Of(err error, stage Stage) Outcome {
	switch stage.name {
	case compiling:
		return ofCompiling(err)
	case planning:
		return ofPlanning(err)
	case recording:
		return ofRecording(err)
	}
	if outcome, ok := waits(err, stage); ok {
		return outcome
	}
	if stage.name == checking {
		return ofChecking(err)
	}
	return ofRelease(err, stage)
}

// waits returns the outcome of an error that is no failure.
func waits(err error, stage Stage) (Outcome, bool) {
	waiting := Outcome{Kind: Waiting, Reason: addonsv1.UpdatingReason, Passes: true}
	switch {
	case errors.Is(err, artifacts.ErrFetching):
		waiting.Reason = addonsv1.FetchingArtifactReason
	case errors.Is(err, artifacts.ErrRefetching):
		// The failure of the last pull stays reported until the pull that is running ends.
		waiting.Reason, waiting.KeepsFailure = addonsv1.FetchingArtifactReason, true
	case errors.Is(err, kindcache.ErrPending):
		waiting.Wait = clusterview.KindRetry
	case errors.Is(err, assignedvalues.ErrOutdated), stage.name == checking && apierrors.IsConflict(err):
		waiting.Wait = requeue.OutdatedRetry
	default:
		return Outcome{}, false
	}
	return waiting, true
}

// ofRelease returns the outcome of a failure of a step that brings a release to its desired state.
func ofRelease(err error, stage Stage) Outcome {
	if errors.Is(err, helmerr.ErrStale) {
		return Outcome{Kind: Contended, Reason: addonsv1.UpdatingReason, BacksOff: true, Passes: true}
	}
	fallback := stage.fallback
	switch stage.name {
	case rendering:
		fallback = reasons.ForRendering(err)
	case fetching:
		fallback = reasons.ForChart(err)
	}
	outcome := Outcome{Kind: Failed, Reason: reasons.For(err, reasons.EngineErrors, fallback), BacksOff: true}
	if outcome.Reason == addonsv1.ClusterUnreachableReason {
		return Outcome{Kind: Unreachable, Reason: outcome.Reason, Wait: requeue.UnreachableRetry, Passes: true}
	}
	// All releases with the chart wait for the same pull.
	outcome.Wait = pullWait(err)
	return outcome
}

// pullWait returns the delay until a failed pull is repeated; 0 if the error is not about a pull.
func pullWait(err error) time.Duration {
	var failure *artifacts.Failure
	if !errors.As(err, &failure) {
		return 0
	}
	return max(failure.Wait, time.Millisecond)
}

// ofChecking returns the outcome of a failed check for an upgrade. Another try of a check that does not pass has the
// same result.
func ofChecking(err error) Outcome {
	var unresolved *reasons.UnresolvedError
	var invalid *reasons.InvalidVersionError
	switch {
	case errors.As(err, &invalid), errors.Is(err, apilifecycle.ErrTooManySteps):
		return Outcome{Kind: Failed, Reason: addonsv1.InvalidKubernetesVersionReason}
	case errors.As(err, &unresolved):
		return Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason}
	}
	return Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason, Wait: pullWait(err), BacksOff: true,
		Passes: true}
}

// ofPlanning returns the outcome of an error for one Cluster.
func ofPlanning(err error) Outcome {
	outcome := Outcome{Kind: Failed, Reason: reasons.ForRendering(err), Passes: passes(err)}
	switch {
	case errors.Is(err, kindcache.ErrPending):
		outcome.Kind, outcome.Wait = Waiting, clusterview.KindRetry
	case errors.Is(err, render.ErrObjectRead):
		outcome.Wait = requeue.ObjectReadRetry
	}
	return outcome
}

// passes reports whether an error of a Cluster passes without a change by a user.
func passes(err error) bool {
	if unresolved := (*reasons.UnresolvedError)(nil); errors.As(err, &unresolved) {
		return reasons.IsPassing(unresolved.Reason)
	}
	return errors.Is(err, reasons.ErrRecord) || errors.Is(err, render.ErrObjectRead) ||
		errors.Is(err, selection.ErrAccessUnknown)
}

// ofCompiling returns the outcome of an error for all Clusters. After the correction by a user, an event of the HelmOp or
// of an object that the HelmOp refers to starts the next pass.
func ofCompiling(err error) Outcome {
	var invalid *templating.Error
	var variant *render.VariantError
	if errors.As(err, &invalid) || errors.As(err, &variant) || errors.Is(err, references.ErrReferenceNotFound) {
		return Outcome{Kind: Failed, Reason: reasons.ForRendering(err)}
	}
	return Outcome{Kind: Unexpected}
}

// ofRecording returns the outcome of the errors of all writes. HelmOpReleases that cannot be written, because of a quota
// for example, are no failure of the controller.
func ofRecording(err error) Outcome {
	isRecord := func(err error) bool { return errors.Is(err, reasons.ErrRecord) }
	if kerrors.FilterOut(err, isRecord) != nil {
		return Outcome{Kind: Unexpected}
	}
	return Outcome{Kind: Failed, Reason: addonsv1.RecordFailedReason, BacksOff: true, Passes: true}
}
