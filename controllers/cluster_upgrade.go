/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

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
)

const (
	// upgradeHoldPrefix begins the names of the annotations by which HelmOps hold upgrades.
	upgradeHoldPrefix = clusterv1.BeforeClusterUpgradeHookAnnotationPrefix + "/helmop-"

	// defaultUpgradeTimeout is that of the API, for releases that were written without its defaults.
	defaultUpgradeTimeout = 30 * time.Minute

	// maxAnnotationName is what Kubernetes permits after the slash.
	maxAnnotationName = 63
)

// upgradeHoldName is the annotation by which a HelmOp holds the upgrades of a Cluster. The hash keeps apart HelmOps of several
// namespaces, and names that had to be shortened.
func upgradeHoldName(helmOp client.ObjectKey) string {
	suffix := "-" + hexDigest(helmOp.String())[:8]
	limit := maxAnnotationName - len("helmop-") - len(suffix)
	name := helmOp.Name
	if len(name) > limit {
		name = name[:limit]
	}
	return upgradeHoldPrefix + strings.TrimRight(name, "-.") + suffix
}

// upgradeReleasedName is the annotation by which a HelmOp remembers which upgrade it lets go, by that with which it held it. Besides, a Cluster
// of a ClusterClass is never without an annotation of ours by that: where Cluster API knows of no annotation but its own, and
// removes that, it removes all that came meanwhile, too.
func upgradeReleasedName(hold string) string {
	_, name, _ := strings.Cut(hold, "/")
	return addonsv1.UpgradeReleasedAnnotationPrefix + "/" + name
}

// upgradeHold is what the value of such an annotation says. The annotation stands before any upgrade is wanted: Cluster API
// asks for it in the moment in which it learns of the upgrade. Then it has the version that runs. From when an upgrade was
// seen to be wanted, it has the version to come, and since when.
type upgradeHold struct {
	version string
	// since is zero as long as no upgrade is held.
	since time.Time
}

const upgradeHoldSeparator = " since "

func parseUpgradeHold(value string) upgradeHold {
	version, since, _ := strings.Cut(value, upgradeHoldSeparator)
	// What is malformed has no time: the hold begins anew, and ends. So does one whose time is yet to come, see judgePending.
	began, _ := time.Parse(time.RFC3339, since)
	return upgradeHold{version: version, since: began}
}

// ownUpgradeHold matches the end of the names that upgradeHoldName makes.
var ownUpgradeHold = regexp.MustCompile(`-[0-9a-f]{8}$`)

// isUpgradeHold tells whether an annotation is one of ours. Others may hold upgrades, too, under names that begin alike.
func isUpgradeHold(name, value string) bool {
	if !strings.HasPrefix(name, upgradeHoldPrefix) || !ownUpgradeHold.MatchString(name) {
		return false
	}
	hold := parseUpgradeHold(value)
	return parseExactVersion(hold.version) != nil && (hold.version == value || !hold.since.IsZero())
}

func (h upgradeHold) String() string {
	if h.since.IsZero() {
		return h.version
	}
	return h.version + upgradeHoldSeparator + h.since.UTC().Format(time.RFC3339)
}

// upgradeState is all that it depends on whether a HelmOp holds the upgrades of a Cluster.
type upgradeState struct {
	// wanted tells that the HelmOp has a release that asks for it.
	wanted bool

	// running is the version that the control plane runs; empty if that is not known.
	running string

	// value is that of the annotation; it counts if held is true.
	value string
	held  bool

	// released is the version to come whose upgrade is not held; empty if there is none.
	released string

	// unready tells why the release is not as the version to come needs it; empty if it is.
	unready func(upcoming string) string

	// resumed is since when the Cluster is not paused; zero if that is not known.
	resumed time.Time

	timeout time.Duration
	now     time.Time
}

// upgradeVerdict is what is done with the annotation of a HelmOp.
type upgradeVerdict struct {
	// held tells whether there is to be one, value what it says.
	held  bool
	value string

	// released is the version to come whose upgrade is not held; empty if there is none.
	released string

	// event is the reason of an Event about it, message its text; empty is none.
	event, message string
	warning        bool

	// requeueAfter is when time alone changes the verdict; 0 is never.
	requeueAfter time.Duration
}

// judgeUpgrade decides. An upgrade that was let go is never held again: the annotation comes back only when the control
// plane runs the version that is wanted.
func judgeUpgrade(cluster *clusterv1.Cluster, s upgradeState) upgradeVerdict {
	known := parseUpgradeHold(s.value)
	if !s.wanted || !cluster.Spec.Topology.IsDefined() {
		if s.held && !known.since.IsZero() {
			return upgradeVerdict{event: addonsv1.ClusterUpgradeReleasedEvent,
				message: fmt.Sprintf("The upgrade to %s is not held any more: the release is ending, or beforeClusterUpgrade was removed", known.version)}
		}
		return upgradeVerdict{}
	}
	running := s.running
	if running == "" {
		// The version that ran when that was known last.
		running = known.version
	}
	upcoming := newerVersion(cluster.Spec.Topology.Version, running)
	if s.running == "" && s.held && (!known.since.IsZero() || parseExactVersion(running) == nil) {
		upcoming = cluster.Spec.Topology.Version
	}
	switch {
	case upcoming == "" && running == "":
		return upgradeVerdict{released: s.released}
	case upcoming == "":
		return judgeEnded(cluster, s, running)
	case !s.held:
		return judgeUnheld(s, upcoming)
	}
	return judgePending(s, known, upcoming)
}

// judgeEnded decides when no upgrade is to come: the annotation stands for the next one. It tells why a hold ended that nobody here let go.
func judgeEnded(cluster *clusterv1.Cluster, s upgradeState, running string) upgradeVerdict {
	verdict := upgradeVerdict{held: true, value: upgradeHold{version: running}.String()}
	known := parseUpgradeHold(s.value)
	begun := !known.since.IsZero()
	// A control plane that is yet to serve is made with what is wanted.
	reached := begun && newerVersion(known.version, running) == ""
	wentOn := isInitialized(cluster) && (reached || !begun && newerVersion(running, known.version) != "")
	switch {
	case !s.held:
	case wentOn:
		verdict.event, verdict.warning = addonsv1.ClusterUpgradeReleasedEvent, true
		verdict.message = fmt.Sprintf("The control plane runs %s although its upgrade was to be held: the annotation was taken away for a moment, "+
			"or Cluster API does not heed it, which takes its feature gate RuntimeSDK", running)
	case begun && !reached:
		verdict.event = addonsv1.ClusterUpgradeReleasedEvent
		verdict.message = fmt.Sprintf("The upgrade to %s is not held any more: it is not asked for any more", known.version)
	}
	return verdict
}

// judgeUnheld decides while an upgrade is to come and the annotation does not stand. It is too late then, for Cluster API may have begun;
// and whoever took the annotation away wants the upgrade.
func judgeUnheld(s upgradeState, upcoming string) upgradeVerdict {
	verdict := upgradeVerdict{released: upcoming}
	if s.released == upcoming {
		return verdict
	}
	if why := s.unready(upcoming); why != "" {
		verdict.event, verdict.warning = addonsv1.ClusterUpgradeReleasedEvent, true
		verdict.message = fmt.Sprintf("The upgrade to %s is not held, though the release is not as it needs it: the annotation that holds upgrades "+
			"did not stand when this one was asked for, or was taken away: %s", upcoming, why)
	}
	return verdict
}

// judgePending decides while an upgrade is to come and the annotation stands.
func judgePending(s upgradeState, known upgradeHold, upcoming string) upgradeVerdict {
	why := s.unready(upcoming)
	if why == "" {
		return upgradeVerdict{released: upcoming, event: addonsv1.ClusterUpgradeReleasedEvent,
			message: fmt.Sprintf("The upgrade to %s may go on: the release is as it needs it", upcoming)}
	}
	if known.since.IsZero() || known.version != upcoming || isAhead(known.since, s.now) {
		return upgradeVerdict{held: true, value: upgradeHold{version: upcoming, since: s.now}.String(), event: addonsv1.ClusterUpgradeHeldEvent,
			message: fmt.Sprintf("The upgrade to %s waits, for at most %s, until the release is as it needs it: %s", upcoming, s.timeout, why), requeueAfter: s.timeout}
	}
	since := known.since
	if s.resumed.After(since) {
		// Nothing could be done for the release meanwhile.
		since = s.resumed
	}
	if rest := since.Add(s.timeout).Sub(s.now); rest > 0 {
		return upgradeVerdict{held: true, value: s.value, requeueAfter: rest}
	}
	return upgradeVerdict{released: upcoming, event: addonsv1.ClusterUpgradeReleasedEvent, warning: true,
		message: fmt.Sprintf("The upgrade to %s was held for %s and goes on though the release is not as it needs it: %s", upcoming, s.timeout, why)}
}

// unreadyFor tells why a release, nil if there is none, is not as a version of Kubernetes to come needs it; empty if it is.
func unreadyFor(release *addonsv1.HelmOpRelease, upcoming string) string {
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

// resumedAt is since when a Cluster that is not paused is not, as Cluster API tells; zero if it does not. If Cluster API has yet to notice
// the end of a pause, that is now.
func resumedAt(cluster *clusterv1.Cluster, now time.Time) time.Time {
	switch paused := conditions.Get(cluster, clusterv1.PausedCondition); {
	case paused == nil:
		return time.Time{}
	case paused.Status == metav1.ConditionTrue:
		return now
	default:
		return paused.LastTransitionTime.Time
	}
}

// upgradeTimeout is how long an upgrade is held at most.
func upgradeTimeout(before *addonsv1.BeforeClusterUpgrade) time.Duration {
	if before.Timeout.Duration <= 0 {
		return defaultUpgradeTimeout
	}
	return before.Timeout.Duration
}
