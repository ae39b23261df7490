// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmopstatus

import (
	"sort"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/failures"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rollout"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/rolloutstate"
)

// maxReportedFailures is the maximum length of status.failures: the status must not grow with the fleet.
const maxReportedFailures = 10

// clusterPhase is the phase in which the status of a HelmOp counts a Cluster.
type clusterPhase string

const (
	phasePaused      clusterPhase = "paused"
	phaseBlocked     clusterPhase = "blocked"
	phaseDeferred    clusterPhase = "deferred"
	phaseWaiting     clusterPhase = "waiting"
	phaseFailed      clusterPhase = "failed"
	phaseUnreachable clusterPhase = "unreachable"
	phaseProgressing clusterPhase = "progressing"
	phaseUpToDate    clusterPhase = "up to date"
	phasePinned      clusterPhase = "pinned"
)

// summary has the sums over all Clusters of a HelmOp.
type summary struct {
	counts   addonsv1.ClusterCounts
	failures []addonsv1.ClusterFailure
	// assigned is the number of selected Clusters whose release has the desired spec.
	assigned int32
	// pinned is the number of selected Clusters that can be served and are pinned to a HelmOp revision by a user.
	pinned int32
	// failed is the number of failures. final is the number of failures without retries.
	failed, final int32
	// otherShard is the number of releases whose Clusters have another shard. whyOtherShard is the message of the first
	// such release. heldByOtherShard is the number of selected Clusters with another shard.
	otherShard, heldByOtherShard int32
	whyOtherShard                string
	// ending is the number of releases of unselected Clusters.
	ending int32
	// whyEnding is the reason why the first of these deletions waits.
	whyEnding string
	// awaited is the number of Clusters that do not exist yet. They count as waiting.
	awaited int32
	// silent is the number of releases of selected Clusters that have not reported anything for longer than silence.
	silent int32
}

// silence is the age from which the HelmOp reports that a new release has not reported anything. Nearly all releases
// report before.
const silence = time.Minute

// isSilent reports whether a release has not reported anything for longer than silence. In a long queue for slots, a
// new release does not write that it waits.
func isSilent(child *addonsv1.HelmOpRelease, now time.Time) bool {
	return child != nil && !conditions.Has(child, addonsv1.ReadyCondition) &&
		now.Sub(child.CreationTimestamp.Time) > silence
}

func summarize(p *Pass) summary {
	var s summary
	for i := range p.Clusters {
		c := &p.Clusters[i]
		phase, failure := phaseOf(c, p.DesiredNumber)
		if failure != nil {
			s.failures = append(s.failures, *failure)
			s.failed++
			if isFinal(c) {
				s.final++
			}
		}
		if c.OtherShard != "" {
			s.otherShard++
			if s.whyOtherShard == "" {
				s.whyOtherShard = c.OtherShard
			}
		}
		if !c.Selected {
			s.ending++
			if s.whyEnding == "" && c.Child != nil && !c.Child.DeletionTimestamp.IsZero() {
				s.whyEnding = whyEnding(c.Child)
			}
			continue
		}
		if !c.Cluster.DeletionTimestamp.IsZero() {
			continue
		}
		s.counts.Selected++
		if c.OtherShard != "" {
			s.heldByOtherShard++
		}
		_, isPinned := apiutil.PinOf(c.Child)
		switch isServed := phase != phasePaused && phase != phaseWaiting && c.OtherShard == ""; {
		case isServed && isPinned:
			s.pinned++
		case isServed && c.Step.Assigned:
			s.assigned++
		}
		s.countChild(c.Child)
		switch phase {
		case phasePaused:
			s.counts.Paused++
		case phaseWaiting:
			s.counts.Waiting++
			if c.Awaited {
				s.awaited++
			}
		case phaseFailed:
			s.counts.Failed++
		case phaseUnreachable:
			s.counts.Unreachable++
		case phaseBlocked:
			s.counts.Blocked++
		case phaseDeferred:
			s.counts.Deferred++
		case phaseUpToDate:
			s.counts.UpToDate++
		case phasePinned:
			s.counts.Pinned++
		case phaseProgressing:
			if isSilent(c.Child, p.Now) {
				s.silent++
			}
		}
	}
	sort.Slice(s.failures, func(i, j int) bool { return s.failures[i].Cluster < s.failures[j].Cluster })
	if len(s.failures) > maxReportedFailures {
		s.failures = s.failures[:maxReportedFailures]
	}
	return s
}

// clustersBeingMoved returns the names of the Clusters with the annotation of clusterctl move whose holds and
// conditions the HelmOp could have requested: those in its own namespace. Another manager serves the Clusters of
// another shard.
func clustersBeingMoved(p *Pass) []string {
	var names []string
	for i := range p.Clusters {
		c := &p.Clusters[i]
		if c.Cluster != nil && c.OtherShard == "" && c.Cluster.Namespace == p.HelmOp.Namespace &&
			report.IsBeingMoved(c.Cluster) {
			names = append(names, c.Cluster.Name)
		}
	}
	sort.Strings(names)
	return names
}

// servable returns the number of selected Clusters that can be served now and are not pinned to a HelmOp revision.
func (s *summary) servable() int32 {
	return s.counts.Selected - s.counts.Waiting - s.counts.Paused - s.heldByOtherShard - s.pinned
}

// isFinal reports whether the failure of a Cluster stays until a user acts.
func isFinal(c *Cluster) bool {
	switch {
	case c.PinErr != nil:
		return true
	case c.Err == nil:
		stalled := conditions.Get(c.Child, addonsv1.StalledCondition)
		return stalled != nil && stalled.Status == metav1.ConditionTrue &&
			stalled.ObservedGeneration == c.Child.Generation
	}
	return !failures.Of(c.Err, failures.Planning).Passes
}

// countChild counts the conditions of a release. These counts are independent of the phase of the Cluster.
func (s *summary) countChild(child *addonsv1.HelmOpRelease) {
	if child == nil {
		return
	}
	if conditions.IsTrue(child, addonsv1.ReadyCondition) {
		s.counts.Ready++
	}
	if conditions.IsTrue(child, addonsv1.StalledCondition) {
		s.counts.Stalled++
	}
	if conditions.IsTrue(child, addonsv1.DriftedCondition) {
		s.counts.Drifted++
	}
}

// phaseOf returns the phase of a Cluster, and its failure if there is one. wanted is the number of the desired HelmOp
// revision; 0 if it is not known.
func phaseOf(c *Cluster, wanted int64) (clusterPhase, *addonsv1.ClusterFailure) {
	fail := func(reason, message string) (clusterPhase, *addonsv1.ClusterFailure) {
		return phaseFailed, &addonsv1.ClusterFailure{Cluster: c.Name, Reason: reason,
			Message: apiutil.Truncate(message, report.MaxConditionMessage)}
	}
	switch {
	case c.OtherShard != "":
		return phaseProgressing, nil
	case c.Err != nil:
		return fail(failures.Of(c.Err, failures.Planning).Reason, c.Err.Error())
	case c.PinErr != nil:
		return fail(addonsv1.PinRefusedReason, c.PinErr.Error())
	case c.Cluster != nil && apiutil.IsClusterPaused(c.Cluster), c.Child != nil &&
		(apiutil.IsChildPaused(c.Child) || report.IsBeingMoved(c.Child)):
		return phasePaused, nil
	case c.Cluster != nil && c.Selected && !apiutil.IsInitialized(c.Cluster):
		return phaseWaiting, nil
	case c.Child == nil && isDeferred(c):
		return phaseDeferred, nil
	case c.Child == nil:
		return phaseProgressing, nil
	}
	ready := conditions.Get(c.Child, addonsv1.ReadyCondition)
	_, isPinned := apiutil.PinOf(c.Child)
	switch {
	case ready == nil || ready.ObservedGeneration != c.Child.Generation:
		return phaseProgressing, nil
	case rolloutstate.IsUnreachable(c.Child):
		return phaseUnreachable, nil
	case isBlocked(c):
		return phaseBlocked, nil
	case isDeferred(c):
		return phaseDeferred, nil
	case c.Step.Unapproved && ready.Status == metav1.ConditionTrue:
		return phaseProgressing, nil
	case c.Selected && ready.Status == metav1.ConditionTrue && c.Step.Action == rollout.ActionNone && wanted != 0 &&
		apiutil.RevisionOf(c.Child) == wanted:
		return phaseUpToDate, nil
	case c.Selected && ready.Status == metav1.ConditionTrue && c.Step.Action == rollout.ActionNone && isPinned:
		return phasePinned, nil
	case ready.Status == metav1.ConditionFalse && !apiutil.ProgressReasons[ready.Reason]:
		return fail(ready.Reason, ready.Message)
	default:
		return phaseProgressing, nil
	}
}
