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
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
)

const (
	// UpgradeHoldPrefix begins the names of the annotations by which HelmOps hold upgrades.
	UpgradeHoldPrefix = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/helmop-"

	// DefaultUpgradeTimeout is that of the API, for releases that were written without its defaults.
	DefaultUpgradeTimeout = 30 * time.Minute

	// maxAnnotationName is what Kubernetes permits after the slash.
	maxAnnotationName = 63
)

// UpgradeHoldName is the annotation by which a HelmOp holds the upgrades of a Cluster. The hash keeps apart HelmOps of
// several namespaces, and names that had to be shortened.
func UpgradeHoldName(helmOp client.ObjectKey) string {
	suffix := "-" + apiutil.HexDigest(helmOp.String())[:8]
	limit := maxAnnotationName - len("helmop-") - len(suffix)
	name := helmOp.Name
	if len(name) > limit {
		name = name[:limit]
	}
	return UpgradeHoldPrefix + strings.TrimRight(name, "-.") + suffix
}

// UpgradeReleasedName is the annotation by which a HelmOp remembers which upgrade it lets go, by that with which it
// held it. Besides, a Cluster of a ClusterClass is never without an annotation of ours by that: where Cluster API knows
// of no annotation but its own, and removes that, it removes all that came meanwhile, too.
func UpgradeReleasedName(hold string) string {
	_, name, _ := strings.Cut(hold, "/")
	return addonsv1.UpgradeReleasedAnnotationPrefix + "/" + name
}

// upgradeHold is what the value of such an annotation says. The annotation stands before any upgrade is wanted: Cluster
// API asks for it in the moment in which it learns of the upgrade. Then it has the version that runs. From when an
// upgrade was seen to be wanted, it has the version to come, and since when.
type upgradeHold struct {
	version string
	// since is zero as long as no upgrade is held.
	since time.Time
}

const upgradeHoldSeparator = " since "

func parseUpgradeHold(value string) upgradeHold {
	version, since, _ := strings.Cut(value, upgradeHoldSeparator)
	// What is malformed has no time: the hold begins anew, and ends. So does one whose time is yet to come, see
	// judgePending.
	began, _ := time.Parse(time.RFC3339, since)
	return upgradeHold{version: version, since: began}
}

// ownUpgradeHold matches the end of the names that UpgradeHoldName makes.
var ownUpgradeHold = regexp.MustCompile(`-[0-9a-f]{8}$`)

// IsUpgradeHold tells whether an annotation is one of ours. Others may hold upgrades, too, under names that begin
// alike.
func IsUpgradeHold(name, value string) bool {
	if !strings.HasPrefix(name, UpgradeHoldPrefix) || !ownUpgradeHold.MatchString(name) {
		return false
	}
	hold := parseUpgradeHold(value)
	return render.ParseExactVersion(hold.version) != nil && (hold.version == value || !hold.since.IsZero())
}

func (h upgradeHold) String() string {
	if h.since.IsZero() {
		return h.version
	}
	return h.version + upgradeHoldSeparator + h.since.UTC().Format(time.RFC3339)
}

// UpgradeState is all that it depends on whether a HelmOp holds the upgrades of a Cluster.
type UpgradeState struct {
	// Wanted tells that the HelmOp has a release that asks for it.
	Wanted bool

	// Running is the version that the control plane runs; empty if that is not known.
	Running string

	// Value is that of the annotation; it counts if held is true.
	Value string
	Held  bool

	// Released is the version to come whose upgrade is not held; empty if there is none.
	Released string

	// Unready tells why the release is not as the version to come needs it; empty if it is.
	Unready func(upcoming string) string

	// Resumed is since when the Cluster is not paused; zero if that is not known.
	Resumed time.Time

	Timeout time.Duration
	Now     time.Time
}

// UpgradeVerdict is what is done with the annotation of a HelmOp.
type UpgradeVerdict struct {
	// Held tells whether there is to be one, value what it says.
	Held  bool
	Value string

	// Released is the version to come whose upgrade is not held; empty if there is none.
	Released string

	// Event is the reason of an Event about it, message its text; empty is none.
	Event, Message string
	Warning        bool

	// RequeueAfter is when time alone changes the verdict; 0 is never.
	RequeueAfter time.Duration
}

// JudgeUpgrade decides. An upgrade that was let go is never held again: the annotation comes back only when the control
// plane runs the version that is wanted.
func JudgeUpgrade(cluster *clusterv1.Cluster, s UpgradeState) UpgradeVerdict {
	known := parseUpgradeHold(s.Value)
	if !s.Wanted || !cluster.Spec.Topology.IsDefined() {
		if s.Held && !known.since.IsZero() {
			return UpgradeVerdict{Event: addonsv1.ClusterUpgradeReleasedEvent,
				Message: fmt.Sprintf("The upgrade to %s is no longer held: the release is being deleted, or "+
					"beforeClusterUpgrade was removed", known.version)}
		}
		return UpgradeVerdict{}
	}
	running := s.Running
	if running == "" {
		// The version that ran when that was known last.
		running = known.version
	}
	upcoming := render.NewerVersion(cluster.Spec.Topology.Version, running)
	if s.Running == "" && s.Held && (!known.since.IsZero() || render.ParseExactVersion(running) == nil) {
		upcoming = cluster.Spec.Topology.Version
	}
	switch {
	case upcoming == "" && running == "":
		return UpgradeVerdict{Released: s.Released}
	case upcoming == "":
		return judgeEnded(cluster, s, running)
	case !s.Held:
		return judgeUnheld(s, upcoming)
	}
	return judgePending(s, known, upcoming)
}

// judgeEnded decides when no upgrade is to come: the annotation stands for the next one. It tells why a hold ended that
// nobody here let go.
func judgeEnded(cluster *clusterv1.Cluster, s UpgradeState, running string) UpgradeVerdict {
	verdict := UpgradeVerdict{Held: true, Value: upgradeHold{version: running}.String()}
	known := parseUpgradeHold(s.Value)
	begun := !known.since.IsZero()
	// A control plane that is not initialized yet is created with the desired version.
	reached := begun && render.NewerVersion(known.version, running) == ""
	wentOn := apiutil.IsInitialized(cluster) && (reached || !begun && render.NewerVersion(running, known.version) != "")
	switch {
	case !s.Held:
	case wentOn:
		verdict.Event, verdict.Warning = addonsv1.ClusterUpgradeReleasedEvent, true
		verdict.Message = fmt.Sprintf("The control plane runs %s although its upgrade was held: the annotation was "+
			"removed for a moment, "+
			"or Cluster API ignores it because its feature gate RuntimeSDK is off", running)
	case begun && !reached:
		verdict.Event = addonsv1.ClusterUpgradeReleasedEvent
		verdict.Message = fmt.Sprintf("The upgrade to %s is no longer held: it is no longer requested", known.version)
	}
	return verdict
}

// judgeUnheld decides while an upgrade is pending and the annotation is not set. It does not set the annotation,
// because Cluster API may have begun the upgrade, and a user who removed the annotation wants the upgrade.
func judgeUnheld(s UpgradeState, upcoming string) UpgradeVerdict {
	verdict := UpgradeVerdict{Released: upcoming}
	if s.Released == upcoming {
		return verdict
	}
	if why := s.Unready(upcoming); why != "" {
		verdict.Event, verdict.Warning = addonsv1.ClusterUpgradeReleasedEvent, true
		verdict.Message = fmt.Sprintf("The upgrade to %s is not held, although the release is not ready for it: the "+
			"annotation that holds upgrades "+
			"was not set when the upgrade was requested, or was removed: %s", upcoming, why)
	}
	return verdict
}

// judgePending decides while an upgrade is pending and the annotation is set.
func judgePending(s UpgradeState, known upgradeHold, upcoming string) UpgradeVerdict {
	why := s.Unready(upcoming)
	if why == "" {
		return UpgradeVerdict{Released: upcoming, Event: addonsv1.ClusterUpgradeReleasedEvent,
			Message: fmt.Sprintf("The upgrade to %s can continue: the release is ready for it", upcoming)}
	}
	if known.since.IsZero() || known.version != upcoming || IsAhead(known.since, s.Now) {
		return UpgradeVerdict{Held: true, Value: upgradeHold{version: upcoming, since: s.Now}.String(),
			Event: addonsv1.ClusterUpgradeHeldEvent,
			Message: fmt.Sprintf("The upgrade to %s waits for at most %s until the release is ready for it: %s", upcoming,
				s.Timeout, why), RequeueAfter: s.Timeout}
	}
	since := known.since
	if s.Resumed.After(since) {
		// Nothing could be done for the release meanwhile.
		since = s.Resumed
	}
	if rest := since.Add(s.Timeout).Sub(s.Now); rest > 0 {
		return UpgradeVerdict{Held: true, Value: s.Value, RequeueAfter: rest}
	}
	return UpgradeVerdict{Released: upcoming, Event: addonsv1.ClusterUpgradeReleasedEvent, Warning: true,
		Message: fmt.Sprintf("The upgrade to %s was held for %s and continues, although the release is not ready for it: %s",
			upcoming, s.Timeout, why)}
}

// UnreadyFor tells why a release, nil if there is none, is not as a version of Kubernetes to come needs it; empty if it
// is.
func UnreadyFor(release *addonsv1.HelmOpRelease, upcoming string) string {
	if release == nil {
		return "there is none yet"
	}
	ready := conditions.Get(release, addonsv1.ReadyCondition)
	switch {
	case release.Spec.KubernetesVersion != upcoming:
		return "it is not told of that version yet"
	case ready == nil || ready.ObservedGeneration != release.Generation:
		return "it was told of that version just now"
	case ready.Status != metav1.ConditionTrue:
		return ready.Reason + ": " + ready.Message
	default:
		return ""
	}
}

// ResumedAt is since when a Cluster that is not paused is not, as Cluster API tells; zero if it does not. If Cluster
// API has yet to notice the end of a pause, that is now.
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

// UpgradeTimeout is how long an upgrade is held at most.
func UpgradeTimeout(before *addonsv1.BeforeClusterUpgrade) time.Duration {
	if before.Timeout.Duration <= 0 {
		return DefaultUpgradeTimeout
	}
	return before.Timeout.Duration
}

// maxAhead is how far clocks of managers may be apart.
const maxAhead = time.Minute

// IsAhead tells whether a hold says that it began in the future.
func IsAhead(since, now time.Time) bool { return since.After(now.Add(maxAhead)) }
