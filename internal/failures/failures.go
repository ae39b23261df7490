// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"errors"
	"slices"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/requeue"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// Kind is the meaning of an error for the object.
type Kind string

const (
	// Waiting is not a failure: the step waits for something that will be available soon. The conditions have the
	// reason.
	Waiting Kind = "Waiting"

	// Contended means that another program has changed the release. The conditions have the reason. The delay until the
	// next pass grows with each try. There is no Event.
	Contended Kind = "Contended"

	// Unreachable means that the API server of the Cluster does not respond. ClusterReachable and Ready have the
	// reason. The known state of the release does not change.
	Unreachable Kind = "Unreachable"

	// Failed means that the stage has no result. The object reports the reason; the [Stage] says where.
	Failed Kind = "Failed"

	// Unexpected means a failure of the controller. No condition reports it: controller-runtime logs the error and
	// repeats the pass.
	Unexpected Kind = "Unexpected"
)

// Outcome is how a reconciler must handle an error.
type Outcome struct {
	Kind Kind

	// Reason is the reason of the conditions; empty for Unexpected.
	Reason string

	// Wait is the delay until the next pass. If it is 0, the caller waits for the next event, or with a growing delay.
	Wait time.Duration

	// KeepsFailure is true if a reported failure must stay reported.
	KeepsFailure bool

	// Passes is true if the failure is transient: it may end without a change by a user.
	Passes bool

	// Invalid is true if the HelmOp revision cannot be rendered for the Cluster: that counts against the revision. Only
	// [Planning] sets it.
	Invalid bool

	// Answered is true if the API server of the Cluster has answered. Only [Observing] sets it.
	Answered bool
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

// The stages of a pass over a HelmOpRelease, besides [Acting]. The conditions and a Warning Event have the reason of a
// failure, unless the comment of the stage says otherwise.
var (
	// Observing reads Helm's records.
	Observing = Acting(addonsv1.ObservationFailedReason)

	// Rendering renders the assigned values.
	Rendering = Stage{name: rendering}

	// Fetching pulls, verifies and parses the chart.
	Fetching = Stage{name: fetching}

	// Checking checks the release for an upgrade of Kubernetes. Only the condition KubernetesUpgradeReady reports its
	// failures. There is no Event.
	Checking = Stage{name: checking}
)

// The stages of a pass over a HelmOp. Package helmopstatus reports the failures in the status of the HelmOp, and
// decides whether its condition Ready is worth an Event.
var (
	// Compiling compiles a HelmOp revision for all Clusters. No condition has the failure of an older revision: HelmOp
	// does not use that revision.
	Compiling = Stage{name: compiling}

	// Planning renders the release of one Cluster and writes the HelmOpRelease. The status of the HelmOp lists the
	// failures by Cluster.
	Planning = Stage{name: planning}

	// Recording is the end of a pass. Its error combines the errors of all writes. The status has them as failures of
	// Planning.
	Recording = Stage{name: recording}
)

// Acting returns the stage of a Helm action. fallback is the reason for errors without a reason of their own.
func Acting(fallback string) Stage { return Stage{name: acting, fallback: fallback} }

// Of returns the outcome of an error in a stage; the zero Outcome without an error.
func Of(err error, stage Stage) Outcome {
	if err == nil {
		return Outcome{}
	}
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

// waits returns the outcome of an error that is not a failure.
func waits(err error, stage Stage) (Outcome, bool) {
	waiting := Outcome{Kind: Waiting, Reason: addonsv1.UpdatingReason, Passes: true}
	switch {
	case errors.Is(err, artifacts.ErrFetching):
		waiting.Reason = addonsv1.FetchingArtifactReason
	case errors.Is(err, artifacts.ErrRefetching):
		// The failure of the last pull stays reported until the running pull ends.
		waiting.Reason, waiting.KeepsFailure = addonsv1.FetchingArtifactReason, true
	case errors.Is(err, kindcache.ErrPending):
		waiting.Wait = clusterview.KindRetry
	case errors.Is(err, ocierr.ErrNotStored):
		// The store has removed the artifact since the pull. The next pass pulls it again, but not at once: the store may be
		// too small for all artifacts in use.
		waiting.Reason, waiting.Wait = addonsv1.FetchingArtifactReason, requeue.BusyRetry
	case errors.Is(err, helmerr.ErrBusy), artifacts.IsBusy(err):
		// The chart and the cluster are not the cause, so a rollout must not count it.
		waiting.Wait = requeue.BusyRetry
	case errors.Is(err, assignedvalues.ErrOutdated), stage.name == checking && apierrors.IsConflict(err):
		waiting.Wait = requeue.OutdatedRetry
	default:
		return Outcome{}, false
	}
	return waiting, true
}

// ofRelease returns the outcome of a failed step in a pass over a release.
func ofRelease(err error, stage Stage) Outcome {
	if errors.Is(err, helmerr.ErrStale) {
		return Outcome{Kind: Contended, Reason: addonsv1.UpdatingReason, Passes: true, Answered: stage == Observing}
	}
	fallback := stage.fallback
	switch stage.name {
	case rendering:
		fallback = reasons.ForRendering(err)
	case fetching:
		fallback = reasons.ForChart(err)
	}
	outcome := Outcome{Kind: Failed, Reason: reasons.For(err, reasons.EngineErrors, fallback)}
	if outcome.Reason == addonsv1.ClusterUnreachableReason {
		return Outcome{Kind: Unreachable, Reason: outcome.Reason, Wait: requeue.UnreachableRetry, Passes: true}
	}
	// HelmOp sends no request with a refused kubeconfig.
	outcome.Answered = stage == Observing && outcome.Reason != addonsv1.KubeconfigRefusedReason
	// All releases with this chart wait for the same pull.
	outcome.Wait = pullWait(err)
	return outcome
}

// pullWait returns the delay until a failed pull is repeated. It returns 0 if the error has another cause.
func pullWait(err error) time.Duration {
	var failure *artifacts.Failure
	if !errors.As(err, &failure) {
		return 0
	}
	return max(failure.Wait, time.Millisecond)
}

// ofChecking returns the outcome of a failed check for an upgrade. Passes is false if a retry would have the same
// result.
func ofChecking(err error) Outcome {
	var unresolved *reasons.UnresolvedError
	var invalid *reasons.InvalidVersionError
	switch {
	case errors.As(err, &invalid), errors.Is(err, apilifecycle.ErrTooManySteps):
		return Outcome{Kind: Failed, Reason: addonsv1.InvalidKubernetesVersionReason}
	case errors.As(err, &unresolved):
		return Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason}
	}
	return Outcome{Kind: Failed, Reason: addonsv1.UpgradeCheckFailedReason, Wait: pullWait(err), Passes: true}
}

// ofPlanning returns the outcome of an error for one Cluster.
func ofPlanning(err error) Outcome {
	outcome := Outcome{Kind: Failed, Reason: reasons.ForRendering(err), Passes: passes(err)}
	switch {
	case errors.Is(err, kindcache.ErrPending):
		outcome.Kind, outcome.Wait, outcome.Passes = Waiting, clusterview.KindRetry, true
	case errors.Is(err, render.ErrObjectRead):
		outcome.Wait = requeue.ObjectReadRetry
	}
	// A missing right or artifact is no fault of the revision.
	unresolved := (*reasons.UnresolvedError)(nil)
	outcome.Invalid = !outcome.Passes && outcome.Reason != addonsv1.ClusterAccessDeniedReason &&
		!errors.As(err, &unresolved)
	return outcome
}

// passes reports whether an error of a Cluster may end without a change by a user.
func passes(err error) bool {
	if unresolved := (*reasons.UnresolvedError)(nil); errors.As(err, &unresolved) {
		return reasons.IsPassing(unresolved.Reason)
	}
	return errors.Is(err, reasons.ErrRecord) || errors.Is(err, render.ErrObjectRead) ||
		errors.Is(err, selection.ErrAccessUnknown)
}

// ofCompiling returns the outcome of an error for all Clusters. After the correction by a user, an event of the HelmOp
// or of a referenced object starts the next pass. A new permission has no event.
func ofCompiling(err error) Outcome {
	var invalid *templating.Error
	var variant *render.VariantError
	switch {
	case errors.Is(err, references.ErrReferenceForbidden):
		return Outcome{Kind: Failed, Reason: reasons.ForRendering(err), Wait: requeue.ObjectReadRetry}
	case errors.As(err, &invalid), errors.As(err, &variant), errors.Is(err, references.ErrReferenceNotFound):
		return Outcome{Kind: Failed, Reason: reasons.ForRendering(err)}
	}
	return Outcome{Kind: Unexpected}
}

// ofRecording returns the outcome of the errors of all writes. Some HelmOpReleases cannot be written, for example
// because of a quota. This is not a failure of the controller.
func ofRecording(err error) Outcome {
	isRecord := func(err error) bool { return errors.Is(err, reasons.ErrRecord) }
	if kerrors.FilterOut(err, isRecord) != nil {
		return Outcome{Kind: Unexpected}
	}
	return Outcome{Kind: Failed, Reason: addonsv1.RecordFailedReason, Passes: true}
}

// IsOfChart reports whether an action or a dry run failed because of the chart, its values or its postRender. Another
// try has the same result. A rendering that exceeded its limits counts too.
func IsOfChart(err error) bool {
	return slices.ContainsFunc([]error{helmerr.ErrChartFailed, helmerr.ErrInvalidChart, helmerr.ErrInvalidValues,
		helmerr.ErrPostRender, helmerr.ErrRenderLimit}, func(kind error) bool { return errors.Is(err, kind) })
}
