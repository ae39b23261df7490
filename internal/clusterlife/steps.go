// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
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

	// Decisions have the Events.
	Decisions []UpgradeDecision

	// RequeueAfter is the time after which the decision may change without an event; 0 is never.
	RequeueAfter time.Duration
}

// DecideSteps decides for how long the Runtime Extension makes a step of the control plane, and the workers, wait for a
// HelmOp. step and workers are the values of the annotations, and hold is the decision about the upgrade.
func DecideSteps(cluster *clusterv1.Cluster, s UpgradeState, hold UpgradeDecision, step, workers string) StepsDecision {
	var decision StepsDecision
	if !s.Active || !cluster.Spec.Topology.IsDefined() {
		return decision
	}
	if s.Running == "" {
		// The version is not known now.
		return StepsDecision{Step: step, Workers: workers}
	}
	next, begun := render.NextStep(cluster, s.Specified, s.Running, s.Assigned), s.stepBegan()
	switch {
	case next == "" || hold.Held:
	case s.Held || begun:
		// The first step waited already, by the annotation that holds the upgrade.
		decision.Step = next
	default:
		decision.Step = decision.add(DecideWait(s, step, next, s.Unready))
	}
	if !begun && hasPendingHook(cluster, runtimehooksv1.BeforeWorkersUpgrade) {
		decision.Workers = decision.add(DecideWait(s, workers, s.Running, s.UnreadyWorkers))
	}
	return decision
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

// DecideWait decides whether a step of an upgrade waits for a HelmOp, by the rules of the hold of a whole upgrade.
// value is the value of the annotation that records the wait, and version the version that the release must be ready
// for. The first result is the new value: a version without a time means that nothing waits for this version any more.
// Nothing is recorded if the release is ready without a wait.
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

// IsWaitRecorded reports whether the value of an annotation records a wait for a version.
func IsWaitRecorded(value, version string) bool {
	known := parseUpgradeHold(value)
	return known.version == version && !known.since.IsZero()
}

// hasPendingHook reports whether Cluster API will call a hook for a Cluster.
func hasPendingHook(cluster *clusterv1.Cluster, hook runtimecatalog.Hook) bool {
	pending := strings.Split(cluster.Annotations[runtimev1.PendingHooksAnnotation], ",")
	return slices.Contains(pending, runtimecatalog.HookName(hook))
}

// UnreadyForWorkers returns why a release is not ready for workers of a version that the control plane runs; empty if
// the release is ready. In the middle of an upgrade, the release may be prepared for the next step already.
func UnreadyForWorkers(release *addonsv1.HelmOpRelease, version string) string {
	if release != nil && render.NewerVersion(release.Spec.KubernetesVersion, version) != "" {
		version = release.Spec.KubernetesVersion
	}
	return UnreadyFor(release, version)
}
