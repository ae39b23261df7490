// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

// StepHoldName returns the name of the annotation that records how long a step of the control plane waits for a HelmOp.
// The argument is the name of the annotation by which the HelmOp holds upgrades.
func StepHoldName(hold string) string {
	_, name, _ := strings.Cut(hold, "/")
	return addonsv1.UpgradeStepAnnotationPrefix + "/" + name
}

// WorkersHoldName returns the name of the annotation that records how long the workers wait for a HelmOp. The argument
// is the name of the annotation by which the HelmOp holds upgrades.
func WorkersHoldName(hold string) string {
	_, name, _ := strings.Cut(hold, "/")
	return addonsv1.UpgradeWorkersAnnotationPrefix + "/" + name
}

// StepsDecision is the desired state of the annotations that record how long the steps of an upgrade wait. The Runtime
// Extension reads them.
type StepsDecision struct {
	// Step and Workers are the values of the annotations; empty if an annotation must not exist.
	Step, Workers string

	// Decisions contain the Events to send.
	Decisions []UpgradeDecision

	// RequeueAfter is the time after which the decision may change without an event; 0 means never.
	RequeueAfter time.Duration
}

// DecideSteps decides how long the Runtime Extension makes a step of the control plane, and the workers, wait for a
// HelmOp. step and workers are the values of the annotations. hold is the decision about the whole upgrade.
func DecideSteps(cluster *clusterv1.Cluster, s UpgradeState, hold UpgradeDecision, step, workers string) StepsDecision {
	var decision StepsDecision
	if !s.Active || !cluster.Spec.Topology.IsDefined() {
		return decision
	}
	if s.Running == "" {
		// The version is not known now.
		return StepsDecision{Step: step, Workers: workers}
	}
	decision.decideStep(cluster, &s, hold, step)
	switch isPending := hasPendingHook(cluster, runtimehooksv1.BeforeWorkersUpgrade); {
	case !s.stepBegan() && isPending:
		decision.Workers = decision.add(DecideWait(s, workers, s.Running, s.UnreadyWorkers))
	case !isPending && s.isLost(workers, s.UnreadyWorkers):
		decision.add("", lostWait("The upgrade of the workers", workers))
	}
	return decision
}

// decideStep decides about the annotation of the control plane.
func (d *StepsDecision) decideStep(cluster *clusterv1.Cluster, s *UpgradeState, hold UpgradeDecision, step string) {
	wentOn := s.Specified != "" && render.NewerVersion(parseUpgradeHold(step).version, s.Specified) == ""
	if wentOn && !s.Held && s.Released != "" && s.isLost(step, s.Unready) {
		d.add("", lostWait("The upgrade of the control plane", step))
	}
	next := render.NextStep(cluster, s.Specified, s.Running, s.Assigned, s.PublishesPlans)
	switch {
	case next == "":
	case hold.Held:
		// If a user removes the annotation that holds the upgrade, the annotation of the step shows that the upgrade was
		// held.
		d.Step = stepOfHold(hold.Value, next)
	case s.Held || s.stepBegan():
		// The first step has waited already, with the annotation that holds the upgrade.
		d.Step = next
	case s.Released == "" && isRecorded(step, next) && s.Unready(next) != "":
		d.Step = d.add(next, UpgradeDecision{Event: addonsv1.ClusterUpgradeReleasedEvent, Warning: true,
			Message: fmt.Sprintf("The upgrade to %s is no longer held, although the release is not ready for it: the "+
				"annotation that holds upgrades was removed: %s", next, s.Unready(next))})
	default:
		d.Step = d.add(DecideWait(*s, step, next, s.Unready))
	}
}

// isLost reports whether a wait ended too early: Cluster API continued although the release was not ready. value is the
// value of the annotation that records the wait. A release with a newer assigned version may have been ready before.
func (s *UpgradeState) isLost(value string, unready func(version string) string) bool {
	known := parseUpgradeHold(value)
	if known.since.IsZero() || render.NewerVersion(s.Assigned, known.version) != "" {
		return false
	}
	_, decision := DecideWait(*s, value, known.version, unready)
	return decision.Held
}

// lostWait returns the Warning about a wait that Cluster API ignored. value is the value of the annotation that records
// the wait.
func lostWait(what, value string) UpgradeDecision {
	return UpgradeDecision{Event: addonsv1.ClusterUpgradeReleasedEvent, Warning: true,
		Message: fmt.Sprintf("%s to %s went on although HelmOp held it: check that the ExtensionConfig of HelmOp is "+
			"Discovered, and that Cluster API runs with the feature gate RuntimeSDK", what, parseUpgradeHold(value).version)}
}

// stepOfHold returns the record of a step that waits because of the annotation that holds the upgrade; empty if the
// step does not wait. value is the value of that annotation.
func stepOfHold(value, step string) string {
	hold := parseUpgradeHold(value)
	if hold.since.IsZero() {
		return ""
	}
	hold.version = step
	return hold.String()
}

// isRecorded reports whether the value of an annotation records a wait for a version.
func isRecorded(value, version string) bool {
	known := parseUpgradeHold(value)
	return known.version == version && !known.since.IsZero()
}

// add adds the decision about a wait, and returns the value of its annotation.
func (d *StepsDecision) add(value string, wait UpgradeDecision) string {
	if wait.Event != "" {
		d.Decisions = append(d.Decisions, wait)
	}
	if wait.RequeueAfter > 0 && (d.RequeueAfter == 0 || wait.RequeueAfter < d.RequeueAfter) {
		d.RequeueAfter = wait.RequeueAfter
	}
	return value
}

// stepBegan reports whether the control plane is being upgraded.
func (s *UpgradeState) stepBegan() bool { return render.NewerVersion(s.Specified, s.Running) != "" }

// DecideWait decides whether a step of an upgrade waits for a HelmOp, by the same rules as for a whole upgrade. value
// is the value of the annotation that records the wait. version is the version for which the release must be ready. The
// first result is the new value of the annotation: a version without a time means that nothing waits for this version
// any more. Nothing is recorded if the release is ready without a wait.
func DecideWait(s UpgradeState, value, version string, unready func(version string) string) (string, UpgradeDecision) {
	known := parseUpgradeHold(value)
	if known.version == version && known.since.IsZero() {
		return value, UpgradeDecision{}
	}
	s.Value, s.Unready = value, unready
	decision := decidePending(s, known, pendingUpgrade{to: version, step: version})
	switch {
	case decision.Held:
		return decision.Value, decision
	case known.version != version:
		return "", UpgradeDecision{}
	default:
		return version, decision
	}
}

// UnrecordedLimit returns how long a wait may last if no controller records it. The second result is true if an
// annotation records the start of the wait. This start then bounds the wait. A wait that was suspended for maintenance
// does not continue until a controller records it.
func (s *UpgradeState) UnrecordedLimit(value, version string) (limit time.Duration, isRecorded bool) {
	known := parseUpgradeHold(value)
	switch {
	case known.version != version || known.since.IsZero() || IsAhead(known.since, s.Now):
		return s.Timeout, false
	case known.suspended:
		return s.Timeout - known.used, false
	default:
		return 0, true
	}
}

// hasPendingHook reports whether Cluster API will call a hook for a Cluster.
func hasPendingHook(cluster *clusterv1.Cluster, hook runtimecatalog.Hook) bool {
	pending := strings.Split(cluster.Annotations[runtimev1.PendingHooksAnnotation], ",")
	return slices.Contains(pending, runtimecatalog.HookName(hook))
}

// UnreadyForWorkers returns why a release is not ready for workers of the version that the control plane runs; empty if
// the release is ready. In the middle of an upgrade, the release may already be rendered for the next step.
func UnreadyForWorkers(release *addonsv1.HelmOpRelease, version string) string {
	if release != nil && render.NewerVersion(release.Spec.KubernetesVersion, version) != "" {
		version = release.Spec.KubernetesVersion
	}
	return UnreadyFor(release, version)
}
