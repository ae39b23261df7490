// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlife

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

const (
	// UpgradeHoldPrefix is the prefix of the names of the annotations with which HelmOps hold upgrades.
	UpgradeHoldPrefix = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/helmop-"

	// DefaultUpgradeTimeout is the default of the API, for releases that were written without the defaults of the API.
	DefaultUpgradeTimeout = 30 * time.Minute

	// maxAnnotationName is the number of characters that Kubernetes permits after the slash.
	maxAnnotationName = 63
)

// UpgradeHoldName returns the name of the annotation with which a HelmOp holds the upgrades of a Cluster. The hash
// distinguishes HelmOps of several namespaces, and HelmOps whose names had to be shortened.
func UpgradeHoldName(helmOp client.ObjectKey) string {
	suffix := "-" + apiutil.HexDigest(helmOp.String())[:8]
	limit := maxAnnotationName - len("helmop-") - len(suffix)
	name := helmOp.Name
	if len(name) > limit {
		name = name[:limit]
	}
	return UpgradeHoldPrefix + strings.TrimRight(name, "-.") + suffix
}

// UpgradeReleasedName returns the name of the annotation that records which upgrade a HelmOp no longer holds. The
// argument is the name of the annotation that held the upgrade.
//
// With UpgradeHoldName and UpgradeReleasedName, a Cluster of a ClusterClass always has an annotation of HelmOp.
// Otherwise, Cluster API would see only its own annotation. When it removes its own annotation, it also removes all
// annotations that were added meanwhile.
func UpgradeReleasedName(hold string) string {
	_, name, _ := strings.Cut(hold, "/")
	return addonsv1.UpgradeReleasedAnnotationPrefix + "/" + name
}

// upgradeHold is the value of the annotation that holds upgrades. The annotation is set before any upgrade is
// requested, because Cluster API checks for the annotation at the moment of the request. Before the request, the value
// is the version that the control plane runs. After the request, the value is the requested version and the time since
// when it is held. While the release waits for maintenance, the value has the time of the last change and the used part
// of the timeout.
type upgradeHold struct {
	version string
	// since is zero while no upgrade is held.
	since time.Time

	// suspended is true while the release waits for maintenance. This wait does not count for the timeout. used is the
	// part of the timeout that was used before.
	suspended bool
	used      time.Duration
}

const (
	upgradeHoldSeparator = " since "
	upgradeHoldUsed      = " used "
)

func parseUpgradeHold(value string) upgradeHold {
	version, since, _ := strings.Cut(value, upgradeHoldSeparator)
	since, used, suspended := strings.Cut(since, upgradeHoldUsed)
	// A malformed value has no time: the hold starts again, so it still ends. A hold with a time in the future starts
	// again too: see decidePending.
	began, _ := time.Parse(time.RFC3339, since)
	hold := upgradeHold{version: version, since: began, suspended: suspended && !began.IsZero()}
	hold.used, _ = time.ParseDuration(used)
	return hold
}

// ownUpgradeHold matches the end of the names that UpgradeHoldName makes.
var ownUpgradeHold = regexp.MustCompile(`-[0-9a-f]{8}$`)

// IsUpgradeHold reports whether an annotation is an upgrade hold of HelmOp. Other programs may hold upgrades with
// annotations whose names have the same prefix.
func IsUpgradeHold(name, value string) bool {
	if !strings.HasPrefix(name, UpgradeHoldPrefix) || !ownUpgradeHold.MatchString(name) {
		return false
	}
	hold := parseUpgradeHold(value)
	return render.ParseExactVersion(hold.version) != nil && (hold.version == value || !hold.since.IsZero())
}

// HeldUpgrade parses the value of the annotation. It returns the version whose upgrade a HelmOp holds, and when the
// hold began. The time is zero while no upgrade is held.
func HeldUpgrade(value string) (version string, since time.Time) {
	hold := parseUpgradeHold(value)
	return hold.version, hold.since
}

func (h upgradeHold) String() string {
	if h.since.IsZero() {
		return h.version
	}
	value := h.version + upgradeHoldSeparator + h.since.UTC().Format(time.RFC3339)
	if h.suspended {
		value += upgradeHoldUsed + h.used.String()
	}
	return value
}

// UpgradeState is the input for the decision whether a HelmOp holds the upgrades of a Cluster.
type UpgradeState struct {
	// Active is true if the HelmOp holds upgrades of the Cluster, with spec.beforeClusterUpgrade.
	Active bool

	// Running is the version that the control plane runs; empty if the version is not known.
	Running string

	// Specified is the version in the spec of the control plane; empty if it is not known. The control plane is being
	// upgraded if it runs an older version.
	Specified string

	// PublishesPlans is the result of render.PublishesPlans.
	PublishesPlans bool

	// Assigned is the version for which the release is rendered; empty if there is no release.
	Assigned string

	// Held is true if the annotation exists, and Value is its value.
	Value string
	Held  bool

	// Released is the requested version whose upgrade is not held; empty if there is none.
	Released string

	// Unready returns why the release is not ready for a version; empty if it is ready.
	Unready func(version string) string

	// UnreadyWorkers returns the same for workers of the version that the control plane runs.
	UnreadyWorkers func(version string) string

	// BeingMoved is true if the Cluster has the annotation of clusterctl move. Then no hold begins.
	BeingMoved bool

	// HoldsSteps is true if the Runtime Extension of HelmOp holds each step of an upgrade.
	HoldsSteps bool

	// Blocked is what a user must do first, according to a required check of the release; empty if the check found
	// nothing.
	Blocked string

	// Resumed is when the last pause of the Cluster ended; zero if the time is not known.
	Resumed time.Time

	// Deferred is why the release must not be changed now; empty if it may be changed. The time of this wait does not
	// count for the timeout. Opens is when the release may be changed; zero if the time is not known.
	Deferred string
	Opens    time.Time

	Timeout time.Duration
	Now     time.Time
}

// UpgradeDecision is the desired state of the annotations of a HelmOp.
type UpgradeDecision struct {
	// Held is true if the annotation must exist, and Value is its value.
	Held  bool
	Value string

	// Released is the requested version whose upgrade is not held; empty if there is none.
	Released string

	// Event is the reason of an Event about the decision, and Message its text. Both are empty if there is no Event.
	Event, Message string
	Warning        bool

	// RequeueAfter is the time after which the decision may change without an event; 0 means never.
	RequeueAfter time.Duration
}

// DecideUpgrade decides whether a HelmOp holds the upgrade of a Cluster. An upgrade that was released is not held a
// second time: the annotation is set again only when the control plane runs the requested version.
func DecideUpgrade(cluster *clusterv1.Cluster, s UpgradeState) UpgradeDecision {
	known := parseUpgradeHold(s.Value)
	if !s.Active || !cluster.Spec.Topology.IsDefined() {
		if s.Held && !known.since.IsZero() {
			return UpgradeDecision{Event: addonsv1.ClusterUpgradeReleasedEvent,
				Message: fmt.Sprintf("The upgrade to %s is no longer held: the release is being deleted, or "+
					"beforeClusterUpgrade was removed", known.version)}
		}
		return UpgradeDecision{}
	}
	running := s.Running
	if running == "" {
		// The version is not known now: use the last known version.
		running = known.version
	}
	p := pendingUpgrade{to: render.NewerVersion(cluster.Spec.Topology.Version, running)}
	if s.Running == "" && s.Held && (!known.since.IsZero() || render.ParseExactVersion(running) == nil) {
		p.to = cluster.Spec.Topology.Version
	}
	p.step = p.to
	switch {
	case s.Running == "":
	case p.to == "":
		p.to = render.RebuiltVersion(cluster, s.Specified)
		p.step = p.to
	default:
		p.step = render.NextStep(cluster, s.Specified, s.Running, s.Assigned, s.PublishesPlans)
	}
	switch {
	case p.to == "" && running == "":
		return UpgradeDecision{Released: s.Released}
	case p.to == "":
		return decideWithoutUpgrade(cluster, s, running)
	case !s.Held:
		return decideUnheld(s, p)
	}
	return decidePending(s, known, p)
}

// PlanPending says what HelmOp waits for while the next step of an upgrade is not known. If Cluster API cannot make a
// plan, for example because it is paused or the ClusterClass has an error, the condition has the cause.
const PlanPending = "Cluster API has not planned the steps of the upgrade yet: HelmOp waits for " +
	"status.controlPlane.upgradePlan of the Cluster; see its condition TopologyReconciled"

// pendingUpgrade is an upgrade of a Cluster that the control plane has not finished.
type pendingUpgrade struct {
	// to is the requested version. The annotations have this version for all steps of the upgrade.
	to string

	// step is the version of the next or current step; empty if it is not known yet.
	step string
}

// unready returns why the release is not ready for the next step; empty if it is ready.
func (p pendingUpgrade) unready(s UpgradeState) string {
	switch {
	case p.step != "":
		return s.Unready(p.step)
	case s.Blocked != "":
		return s.Blocked // The text says how to resolve the problem, whatever the next step is.
	default:
		return PlanPending
	}
}

// String describes the upgrade, and its next step if there are several.
func (p pendingUpgrade) String() string {
	if p.step == "" || p.step == p.to {
		return "The upgrade to " + p.to
	}
	return fmt.Sprintf("The upgrade to %s, with the next step %s,", p.to, p.step)
}

// decideWithoutUpgrade decides while no upgrade is requested: it sets the annotation for the next upgrade. If a hold
// ended without a decision of HelmOp, an Event explains this.
func decideWithoutUpgrade(cluster *clusterv1.Cluster, s UpgradeState, running string) UpgradeDecision {
	decision := UpgradeDecision{Held: true, Value: upgradeHold{version: running}.String()}
	if s.BeingMoved && !s.Held {
		return UpgradeDecision{Released: s.Released}
	}
	known := parseUpgradeHold(s.Value)
	begun := !known.since.IsZero()
	// A control plane that is not initialized yet is created with the desired version.
	reached := begun && render.NewerVersion(known.version, running) == ""
	wentOn := apiutil.IsInitialized(cluster) && (reached || !begun && render.NewerVersion(running, known.version) != "")
	switch {
	case !s.Held:
	case wentOn:
		decision.Event, decision.Warning = addonsv1.ClusterUpgradeReleasedEvent, true
		decision.Message = fmt.Sprintf("The control plane runs %s although its upgrade was held: the annotation was "+
			"removed for a moment, "+
			"or Cluster API ignores it because its feature gate RuntimeSDK is off", running)
	case begun && !reached:
		decision.Event = addonsv1.ClusterUpgradeReleasedEvent
		decision.Message = fmt.Sprintf("The upgrade to %s is no longer held: it is no longer requested", known.version)
	}
	return decision
}

// decideUnheld decides while an upgrade is pending and the annotation is not set. It does not set the annotation:
// Cluster API may have started the upgrade, or a user may have removed the annotation to start it. In an upgrade with
// several steps, the requested version is recorded as released from the start, so the steps cause no Events.
func decideUnheld(s UpgradeState, p pendingUpgrade) UpgradeDecision {
	if p.step == "" {
		return UpgradeDecision{Released: s.Released} // The target has just changed: decide when the next step is known.
	}
	decision := UpgradeDecision{Released: p.to}
	if s.Released == p.to || s.HoldsSteps && !s.stepBegan() {
		return decision
	}
	if why := p.unready(s); why != "" {
		decision.Event, decision.Warning = addonsv1.ClusterUpgradeReleasedEvent, true
		decision.Message = fmt.Sprintf("%s is not held, although the release is not ready for it: the annotation that "+
			"holds upgrades was not set when the upgrade was requested, or was removed: %s", p, why)
	}
	return decision
}

// decidePending decides while an upgrade is pending and the annotation is set.
func decidePending(s UpgradeState, known upgradeHold, p pendingUpgrade) UpgradeDecision {
	why := p.unready(s)
	if why == "" {
		return UpgradeDecision{Released: p.to, Event: addonsv1.ClusterUpgradeReleasedEvent,
			Message: fmt.Sprintf("%s can continue: the release is ready for it", p)}
	}
	switch begins := known.since.IsZero() || known.version != p.to || IsAhead(known.since, s.Now); {
	case begins && s.BeingMoved:
		return UpgradeDecision{Released: p.to, Event: addonsv1.ClusterUpgradeReleasedEvent, Warning: true,
			Message: fmt.Sprintf("%s is not held, although the release is not ready for it: the Cluster has the annotation %s "+
				"(see the Event %s): %s", p, clusterctlv1.DeleteForMoveAnnotation, addonsv1.ClusterBeingMovedEvent, why)}
	case begins:
		return beginUpgradeHold(s, p, why)
	}
	hold := known
	switch used := s.usedTimeout(known); {
	case s.Deferred != "" && !known.suspended:
		hold = upgradeHold{version: p.to, since: s.Now, suspended: true, used: used.Truncate(time.Second)}
	case s.Deferred == "" && known.suspended:
		hold = upgradeHold{version: p.to, since: s.Now.Add(-used)}
	case s.Deferred == "" && used >= s.Timeout:
		return UpgradeDecision{Released: p.to, Event: addonsv1.ClusterUpgradeReleasedEvent, Warning: true,
			Message: fmt.Sprintf("%s was held for %s and continues, although the release is not ready for it: %s",
				p, s.Timeout, why)}
	}
	value := s.Value
	if hold != known {
		value = hold.String()
	}
	return UpgradeDecision{Held: true, Value: value, RequeueAfter: s.requeueAfter(s.Timeout - s.usedTimeout(hold))}
}

// beginUpgradeHold begins to hold a pending upgrade.
func beginUpgradeHold(s UpgradeState, p pendingUpgrade, why string) UpgradeDecision {
	hold := upgradeHold{version: p.to, since: s.Now, suspended: s.Deferred != ""}
	if s.Deferred != "" {
		why += "; the time until it may be changed does not count: " + s.Deferred
	}
	return UpgradeDecision{Held: true, Value: hold.String(), Event: addonsv1.ClusterUpgradeHeldEvent,
		Message: fmt.Sprintf("%s waits for at most %s until the release is ready for it: %s", p,
			s.Timeout, why), RequeueAfter: s.requeueAfter(s.Timeout)}
}

// usedTimeout returns the part of the timeout that has passed. A pause does not count, because no manager reconciled
// the release during the pause.
func (s *UpgradeState) usedTimeout(hold upgradeHold) time.Duration {
	if hold.suspended {
		return hold.used
	}
	since := hold.since
	if s.Resumed.After(since) {
		since = s.Resumed
	}
	return s.Now.Sub(since)
}

// requeueAfter returns the time after which the decision may change. rest is the remaining part of the timeout.
func (s *UpgradeState) requeueAfter(rest time.Duration) time.Duration {
	switch {
	case s.Deferred == "":
		return rest
	case s.Opens.IsZero():
		return 0
	default:
		return max(time.Millisecond, s.Opens.Sub(s.Now))
	}
}

// UnreadyFor returns why a release is not ready for a version of Kubernetes; empty if the release is ready.
// The release is nil if it does not exist yet.
func UnreadyFor(release *addonsv1.HelmOpRelease, version string) string {
	if release == nil {
		return "the release does not exist yet"
	}
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	switch {
	case !render.IsSameRelease(release.Spec.KubernetesVersion, version):
		return "the release is not rendered for that version yet"
	case ready == nil || ready.ObservedGeneration != release.Generation:
		return "the release was rendered for that version just now"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason + ": " + ready.Message
	default:
		return ""
	}
}

// ResumedAt returns when the last pause of a Cluster ended, from the condition Paused that Cluster API sets; zero if
// the Cluster does not have the condition. The Cluster must not be paused. If Cluster API has not observed the end of
// the pause yet, the result is now.
func ResumedAt(cluster *clusterv1.Cluster, now time.Time) time.Time {
	switch paused := conditions.Get(cluster, clusterv1.PausedCondition); {
	case paused == nil:
		return time.Time{}
	case paused.Status == metav1.ConditionTrue:
		return now
	default:
		return paused.LastTransitionTime.Time
	}
}

// UpgradeTimeout is the longest time for which an upgrade is held.
func UpgradeTimeout(before *addonsv1.BeforeClusterUpgrade) time.Duration {
	if before.Timeout.Duration <= 0 {
		return DefaultUpgradeTimeout
	}
	return before.Timeout.Duration
}

// maxAhead is the permitted difference between the clocks of managers.
const maxAhead = time.Minute

// IsAhead reports whether the recorded start of a hold is in the future.
func IsAhead(since, now time.Time) bool { return since.After(now.Add(maxAhead)) }
