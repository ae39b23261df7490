// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// Step is something that a user can do next.
type Step struct {
	// Why is the reason for the step, as a sentence without a full stop.
	Why string `json:"why"`
	// Command is the command to run; empty if there is no command for the step.
	Command string `json:"command,omitempty"`

	// promotes is true if the step promotes a wave.
	promotes bool
}

func (s Step) String() string {
	if s.Command == "" {
		return s.Why
	}
	return s.Why + ":\n  " + s.Command
}

// Program is the program that recommended commands call.
type Program struct {
	Name string
	// Flags are the flags that select the management cluster. Each begins with a space.
	Flags string
}

// Command returns a command for a HelmOp.
func (p Program) Command(helmOp *addonsv1.HelmOp, command string, flags ...string) string {
	return strings.Join(append([]string{p.Name, command, helmOp.Name, "-n", helmOp.Namespace}, flags...), " ") + p.Flags
}

// removeAnnotation returns a command that removes an annotation from an object.
func (p Program) removeAnnotation(resource string, object metav1.Object, annotation string) string {
	return fmt.Sprintf("kubectl -n %s annotate %s %s %s-", object.GetNamespace(), resource, object.GetName(),
		annotation) + p.Flags
}

// Summary is the state of a HelmOp and of its rollout.
type Summary struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready is the status of the condition Ready: True, False or Unknown. It is Unknown if HelmOp has not reconciled the
	// last change yet.
	Ready   metav1.ConditionStatus `json:"ready"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	// Unhealthy is true if a user has to act, if a Cluster is unhealthy, or if HelmOp has not reconciled the last change
	// yet.
	Unhealthy bool `json:"unhealthy"`
	// Clusters are the numbers of Clusters. Clusters and Rollout are empty if the HelmOp is being deleted: the status
	// still has those from before.
	Clusters *addonsv1.ClusterCounts `json:"clusters,omitempty"`
	Rollout  *addonsv1.RolloutStatus `json:"rollout,omitempty"`
	// RolloutPaused is spec.rollout.paused.
	RolloutPaused bool `json:"rolloutPaused,omitempty"`
	// Next is what a user can do next.
	Next []Step `json:"next,omitempty"`
}

// restingReasons are reasons for which a HelmOp is not Ready but needs no user, in addition to
// [apiutil.ProgressReasons].
var restingReasons = map[string]bool{
	addonsv1.WaitingForClustersReason:  true,
	addonsv1.PausedReason:              true,
	addonsv1.RegistryRateLimitedReason: true,
}

// needsUser reports whether a HelmOp with a condition Ready needs a user to become Ready.
func needsUser(ready *metav1.Condition) bool {
	return ready != nil && ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason] &&
		!restingReasons[ready.Reason]
}

// isOutdated reports whether a HelmOp has no condition Ready yet, or one from before the last change. HelmOp does not
// reconcile changes during a pause, so the condition is then as new as it can be.
func isOutdated(helmOp *addonsv1.HelmOp) bool {
	ready := conditions.Get(helmOp, addonsv1.ReadyCondition)
	return (ready == nil || ready.ObservedGeneration < helmOp.Generation) && !apiutil.IsHelmOpPaused(helmOp) &&
		!conditions.IsTrue(helmOp, addonsv1.PausedCondition)
}

// SummaryOf returns the summary of a HelmOp. It recommends commands of the program p.
func SummaryOf(helmOp *addonsv1.HelmOp, p Program) Summary {
	s := Summary{
		Namespace: helmOp.Namespace, Name: helmOp.Name, Ready: metav1.ConditionUnknown,
		Clusters: helmOp.Status.Clusters, Rollout: helmOp.Status.Rollout,
		RolloutPaused: helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Paused,
		Next:          NextForHelmOp(helmOp, p),
	}
	if !helmOp.DeletionTimestamp.IsZero() {
		s.Clusters, s.Rollout = nil, nil
	}
	ready := conditions.Get(helmOp, addonsv1.ReadyCondition)
	if isOutdated(helmOp) {
		s.Message, s.Unhealthy = "HelmOp has not reconciled the last change yet", true
		return s
	}
	if ready != nil {
		s.Ready, s.Reason, s.Message = ready.Status, ready.Reason, ready.Message
	}
	c := s.Clusters
	s.Unhealthy = needsUser(ready) || conditions.IsTrue(helmOp, addonsv1.DeletionsHeldCondition) ||
		c != nil && c.Failed+c.Stalled+c.Unreachable+c.Drifted > 0
	return s
}

// TimelessLine returns the line without times, which change without any other change.
func (s *Summary) TimelessLine(namespaces bool) string {
	timeless := *s
	if s.Rollout != nil {
		timeless.Rollout = s.Rollout.DeepCopy()
		timeless.Rollout.StartedAt = metav1.Time{}
	}
	return timeless.Line(time.Time{}, namespaces)
}

// Line returns a summary in one line. It includes the namespace if the table has several namespaces.
func (s *Summary) Line(now time.Time, namespaces bool) string {
	var b strings.Builder
	if namespaces {
		b.WriteString(s.Namespace + "/")
	}
	b.WriteString(s.Name + ": " + s.ReadyText())
	if r := s.Rollout; r != nil {
		b.WriteString("; " + s.Progress(now))
	}
	if len(s.Next) > 0 {
		// If the next step promotes a wave, the text "waits for the promotion of wave canary" is enough.
		if !s.Next[0].promotes {
			b.WriteString("; " + lowerFirst(s.Next[0].Why))
		}
		if s.Next[0].Command != "" {
			b.WriteString(": " + s.Next[0].Command)
		}
	}
	return b.String()
}

// ReadyText returns the condition Ready in words.
func (s *Summary) ReadyText() string {
	switch {
	case s.Ready == metav1.ConditionTrue:
		return "Ready"
	case s.Ready == metav1.ConditionUnknown && s.Reason == "":
		return "not reconciled yet"
	case s.Reason != "":
		return "not Ready (" + s.Reason + ")"
	default:
		return "not Ready"
	}
}

// Progress describes the rollout.
func (s *Summary) Progress(now time.Time) string {
	r := s.Rollout
	phase := string(r.Phase)
	if phase == "" {
		phase = string(addonsv1.RolloutPhaseProgressing)
	}
	text := fmt.Sprintf("HelmOp revision %d %s", r.Revision, phase)
	if r.Wave != "" {
		text += " in wave " + r.Wave
	}
	if phase == string(addonsv1.RolloutPhaseProgressing) && !r.StartedAt.IsZero() {
		text += " since " + Age(now, r.StartedAt.Time)
	}
	var counts []string
	if s.Clusters != nil {
		counts = append(counts, fmt.Sprintf("%d of %s up to date", s.Clusters.UpToDate,
			plural.Count(s.Clusters.Selected, "Cluster", "Clusters")))
	} else {
		counts = append(counts, fmt.Sprintf("%d up to date", r.Updated))
	}
	for _, count := range []struct {
		n    int32
		what string
	}{{r.InFlight, "updating"}, {r.Failed, "failed"}} {
		if count.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	text += ": " + strings.Join(counts, ", ")
	if waits := WaitingFor(r); waits != "" {
		text += "; waits for " + waits
	}
	return text
}

// InlineCommand matches a command at the end of a message with which a user continues.
var InlineCommand = regexp.MustCompile(`:\s+kubectl -n \S+ annotate .*$`)

// approveCommand matches the command in a message with which a user approves, see nextForRollout.
var approveCommand = regexp.MustCompile(` \(kubectl helmop approve [^)]*\)`)

// WaitingFor returns what a rollout waits for, without the commands.
func WaitingFor(r *addonsv1.RolloutStatus) string {
	return approveCommand.ReplaceAllString(InlineCommand.ReplaceAllString(r.WaitingFor, ""), "")
}

// AwaitsPromotion returns the wave whose promotion the rollout waits for. ok is false if it waits for none.
func AwaitsPromotion(helmOp *addonsv1.HelmOp) (wave string, ok bool) {
	r := helmOp.Status.Rollout
	if r == nil || r.Wave == "" || IsEnded(r.Phase) || r.Phase == addonsv1.RolloutPhasePaused {
		return "", false
	}
	return r.Wave, strings.Contains(r.WaitingFor, addonsv1.RolloutPromoteAnnotation+"=")
}

// IsEnded reports whether a phase means that the rollout has ended.
func IsEnded(phase addonsv1.RolloutPhase) bool {
	switch phase {
	case addonsv1.RolloutPhaseComplete, addonsv1.RolloutPhaseRolledBack, addonsv1.RolloutPhaseAborted,
		addonsv1.RolloutPhaseSuperseded:
		return true
	default:
		return false
	}
}

// NextForHelmOp returns what a user can do for a HelmOp, the most urgent first. It is empty if there is nothing to do.
func NextForHelmOp(helmOp *addonsv1.HelmOp, p Program) []Step {
	on := func(command string, flags ...string) string { return p.Command(helmOp, command, flags...) }
	var steps []Step
	add := func(why, command string) { steps = append(steps, Step{Why: why, Command: command}) }
	if isOutdated(helmOp) {
		add("Wait until the last change is reconciled. If this takes longer than a minute, check that the manager runs", "")
		return steps
	}
	isDeleting := !helmOp.DeletionTimestamp.IsZero()
	if d := helmOp.Status.Deletions; d != nil && d.Waiting > 0 && !isDeleting {
		add(fmt.Sprintf("Correct the selector or the labels of the Clusters, or confirm the deletion of %s",
			plural.Count(d.Waiting, "release", "releases")), on("confirm"))
	}
	if apiutil.IsHelmOpPaused(helmOp) {
		if helmOp.Spec.Paused {
			add("Resume the paused HelmOp", on("resume"))
		} else {
			add("The annotation cluster.x-k8s.io/paused pauses the HelmOp; remove the annotation",
				p.removeAnnotation(addonsv1.HelmOpResource, helmOp, clusterv1.PausedAnnotation))
		}
	}
	if conditions.GetReason(helmOp, addonsv1.PausedCondition) == addonsv1.BeingMovedReason {
		add("The HelmOp is not reconciled, because clusterctl move is moving it; if no move is running, remove "+
			"the annotation",
			p.removeAnnotation(addonsv1.HelmOpResource, helmOp, clusterctlv1.DeleteForMoveAnnotation))
	}
	if isDeleting {
		// The rollout and the failures in the status are from before the deletion.
		add("Wait until the releases are uninstalled. To see what each release waits for", on("status", "--watch"))
		return steps
	}
	if resolved := conditions.Get(helmOp, addonsv1.ResolvedCondition); resolved != nil &&
		resolved.Status == metav1.ConditionFalse {
		add("Correct what the condition Resolved names, then check the registry at once", on("reconcile"))
	}
	if r := helmOp.Status.Rollout; r != nil {
		steps = append(steps, nextForRollout(helmOp, r, on)...)
	}
	if failures := helmOp.Status.Failures; len(failures) > 0 {
		add(fmt.Sprintf("See why the release in Cluster %s failed", failures[0].Cluster),
			on("describe", "--cluster", Quoted(failures[0].Cluster)))
		switch {
		case failures[0].Reason == addonsv1.ConfirmationRequiredReason:
			add(confirmObjects, on("confirm"))
		case slices.ContainsFunc(failures, func(failure addonsv1.ClusterFailure) bool {
			return failure.Reason == addonsv1.ReleaseConflictReason
		}):
			add("Correct the causes, then retry the failed releases, except those that another HelmOp has taken over",
				on("retry"))
		default:
			add("Correct the cause, then retry the failed releases", on("retry"))
		}
	}
	if ready := conditions.Get(helmOp, addonsv1.ReadyCondition); len(steps) == 0 && needsUser(ready) {
		add(fmt.Sprintf("Correct what the condition Ready names (%s)", ready.Reason), on("describe"))
	}
	return steps
}

// confirmObjects is what a user can do for a release that waits for a confirmation.
const confirmObjects = "Correct the artifact, undo the change of the HelmOp, or confirm the deletion of objects"

// nextForRollout returns what a user can do for a rollout.
func nextForRollout(helmOp *addonsv1.HelmOp, r *addonsv1.RolloutStatus, on func(string, ...string) string) []Step {
	var approval []Step
	if a := r.Approval; a != nil && !a.Approved && a.Digest != "" {
		approval = []Step{{
			Why: fmt.Sprintf("Check the changes with preview, then approve digest %s of HelmOp revision %d",
				a.Digest, a.Revision),
			Command: on("approve"),
		}}
	}
	return append(approval, nextForPhase(helmOp, r, on)...)
}

// nextForPhase returns what a user can do for a rollout besides an approval. The commands have the HelmOp revision that
// the user has seen: they must not apply to a newer one.
func nextForPhase(helmOp *addonsv1.HelmOp, r *addonsv1.RolloutStatus, on func(string, ...string) string) []Step {
	revision := fmt.Sprintf("--revision=%d", r.Revision)
	switch {
	case r.Phase == addonsv1.RolloutPhasePaused:
		steps := []Step{{Why: "Correct the failures, then continue the rollout", Command: on("rollout continue", revision)}}
		if r.LastGoodRevision > 0 {
			steps = append(steps, Step{Why: fmt.Sprintf("Or return to HelmOp revision %d", r.LastGoodRevision),
				Command: on("rollout abort", revision)})
		}
		return steps
	case r.Phase == addonsv1.RolloutPhaseRolledBack, r.Phase == addonsv1.RolloutPhaseAborted:
		return []Step{{
			Why:     fmt.Sprintf("Change the spec of the HelmOp, or restore the spec of HelmOp revision %d", r.LastGoodRevision),
			Command: on("rollout undo", fmt.Sprintf("--to-revision=%d", r.LastGoodRevision)),
		}}
	case helmOp.Spec.Rollout != nil && helmOp.Spec.Rollout.Paused && !IsEnded(r.Phase):
		return []Step{{Why: "Resume the paused rollout", Command: on("rollout resume")}}
	}
	if wave, ok := AwaitsPromotion(helmOp); ok {
		return []Step{{Why: "Promote wave " + wave, Command: on("rollout promote", "--wave="+wave, revision), promotes: true}}
	}
	return nil
}

// NextForRelease returns what a user can do for the release of a row.
func NextForRelease(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease, row *Row, p Program) []Step {
	on := func(command string, flags ...string) string { return p.Command(helmOp, command, flags...) }
	retry := on("retry", "--cluster", Quoted(row.Cluster))
	var steps []Step
	add := func(why, command string) { steps = append(steps, Step{Why: why, Command: command}) }
	lostTo, isLost := release.Annotations[addonsv1.LostToAnnotation]
	switch row.State {
	case StateStalled, StateFailed:
		if isLost && release.DeletionTimestamp.IsZero() {
			add(nextForLost(helmOp, release, lostTo), "")
			break
		}
		add(nextForFailure(release, row, retry, on("confirm")))
	case StateUnreachable:
		add("Make the API server of the Cluster answer. HelmOp checks every 10 seconds and then continues by itself", "")
	case StateDrifted:
		add("Undo the changes in the Cluster, set spec.driftDetection.mode to Correct, or add the fields to "+
			"spec.driftDetection.ignore", "")
	case StateWaiting:
		add("Wait. HelmOp continues by itself when the condition that the message names is met", "")
	case StatePaused:
		steps = append(steps, nextForPause(helmOp, release, p)...)
	case StatePinned:
		add(fmt.Sprintf("The release is pinned to HelmOp revision %d. To let it follow the rollouts again",
			apiutil.RevisionOf(release)), on("unpin", "--cluster", Quoted(row.Cluster)))
	case StateOutdated:
		add("See what the rollout waits for", on("rollout status", "--watch=false"))
	case StateProgressing, StateDeleting:
		add("Wait. To follow the release", on("status", "--cluster", Quoted(row.Cluster), "--watch"))
	}
	return steps
}

// nextForFailure returns what a user can do for a failed release. Some waits do not end with a retry.
func nextForFailure(release *addonsv1.HelmOpRelease, row *Row, retry, confirm string) (why, command string) {
	again := ""
	if at := release.Status.NextTryAt; !at.IsZero() {
		again = " at " + at.UTC().Format(time.RFC3339)
	}
	switch {
	case row.Reason == addonsv1.ConfirmationRequiredReason:
		return confirmObjects, confirm
	case row.State == StateStalled:
		return "Correct what the message names. The retries are spent, so change the spec or retry", retry
	case row.Reason == addonsv1.ReleasePendingReason:
		return fmt.Sprintf("Wait: HelmOp continues when the other action ends, or%s at the latest. If no action is running "+
			"any more, end it with helm rollback or helm uninstall in the Cluster", cmp.Or(again, " after its timeout")), ""
	case strings.HasPrefix(row.Message, apiutil.RetryAwaitsMaintenance):
		return fmt.Sprintf("Correct what the message names. HelmOp tries again when maintenance permits it%s; a retry "+
			"waits, too", again), ""
	case again != "":
		return "Correct what the message names. HelmOp tries again" + again + ", or at once", retry
	default:
		return "Correct what the message names, then retry", retry
	}
}

// nextForLost returns what a user can do for a release that another HelmOp, or the HelmOp in another management
// cluster, has taken over. A retry is not recommended: it changes nothing, or takes the release back.
func nextForLost(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease, owner string) string {
	retry := ""
	if RetryTakesBack(release) {
		retry = ". A retry of this release takes it back"
	}
	if strings.HasPrefix(owner, "management-cluster/") {
		return fmt.Sprintf("HelmOp %q in another management cluster has taken over the release. To leave the release "+
			"there, delete the HelmOp in this management cluster", helmOp.Name) + retry
	}
	return fmt.Sprintf("HelmOp %q has taken over the release. To leave the release there, change the labels of the "+
		"Cluster so that HelmOp %q no longer selects it: the release stays installed", owner, helmOp.Name) + retry
}

// RetryTakesBack reports whether another HelmOp, or the HelmOp in another management cluster, has taken over a release,
// and a retry takes the release back.
func RetryTakesBack(release *addonsv1.HelmOpRelease) bool {
	install := release.Spec.Install
	return release.Annotations[addonsv1.LostToAnnotation] != "" && install != nil &&
		ptr.Deref(install.TakeOwnership, false)
}

func nextForPause(helmOp *addonsv1.HelmOp, release *addonsv1.HelmOpRelease, p Program) []Step {
	switch {
	case helmOp.Spec.Paused:
		return []Step{{Why: "Resume the paused HelmOp", Command: p.Command(helmOp, "resume")}}
	case apiutil.IsChildPaused(release):
		return []Step{{Why: "The annotation cluster.x-k8s.io/paused pauses the release; remove it",
			Command: p.removeAnnotation(addonsv1.HelmOpReleaseResource, release, clusterv1.PausedAnnotation)}}
	default:
		return []Step{{Why: "End the pause that the condition Paused names"}}
	}
}

// Quoted quotes a word for a shell if it needs quotes.
func Quoted(word string) string {
	if strings.ContainsAny(word, " '\"") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

func lowerFirst(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// Age returns how long ago a time is.
func Age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at))
}
