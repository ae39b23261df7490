// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// Release identifies what a Cluster is to have, or was told to have.
type Release struct {
	// Identity is the name and the namespace of the release. Another identity is another release.
	Identity string

	// Content is a digest of everything else that shapes the release.
	Content string

	// Rest is a digest of what is told along and shapes nothing, for example the deletion policy.
	Rest string
}

// Child is what a Cluster was told to have.
type Child struct {
	Release

	// Revision is the number of the revision that it is made from; 0 is none that is known.
	Revision int64

	// Joined is true if the Cluster was new when it was told this revision.
	Joined bool

	// FailedBefore is true if the release failed already before the Cluster was told this revision, under one that was good.
	FailedBefore bool

	// Previous is the number of the revision of which the child remembers what it had under it; 0 is none.
	Previous int64

	// Deleting is true while the child ends its release.
	Deleting bool

	// Foreign is true if another owner has the release: the deletion of the child uninstalls nothing.
	Foreign bool

	// Away is true if Deleting and the Cluster did not answer already when the deletion began.
	Away bool
}

// Health is how a Cluster fares with what it was told.
type Health string

const (
	// HealthProgressing is on its way, or not known.
	HealthProgressing Health = ""

	// HealthReady is as it was told, healthy and, where enabled, tested.
	HealthReady Health = "Ready"

	// HealthFailed is failed, be it that it is tried again.
	HealthFailed Health = "Failed"

	// HealthUnreachable has an API server that does not answer.
	HealthUnreachable Health = "Unreachable"
)

// Cluster is all that the plan needs to know of a Cluster.
type Cluster struct {
	// Name of the Cluster, unique among those of a plan.
	Name string

	// Wave is the index of the Cluster's wave in Strategy.Waves, or len(Strategy.Waves) if it is in none.
	Wave int

	// Selected is true if the selector chooses the Cluster.
	Selected bool

	// Gone is true if there is no such Cluster any more.
	Gone bool

	// Deleting is true if the Cluster is under deletion.
	Deleting bool

	// Paused is true if nothing may be done for the Cluster.
	Paused bool

	// Initialized is true once the control plane of the Cluster can be served.
	Initialized bool

	// Known is true if the Cluster could be served already when the rollout of the revision that is wanted began. One that has no
	// child nevertheless is not taken for new: its release was ended to be replaced.
	Known bool

	// Blocked is true while a HelmOp that comes first is not ready in the Cluster.
	Blocked bool

	// Target is what the Cluster is to have under the revision that is wanted; nil if that cannot be told now.
	Target *Release

	// TargetInvalid is true if Target is nil because what is wanted cannot be rendered for this Cluster: a failure of the revision.
	TargetInvalid bool

	// Good is what the Cluster is to have under the last good revision; nil if there is none or if that cannot be told now.
	Good *Release

	// Own is what the Cluster is to have under the revision that its child is made from; nil if that cannot be told now.
	Own *Release

	// Child is what the Cluster was told to have; nil if it was told nothing.
	Child *Child

	// Health is how the Cluster fares with that.
	Health Health

	// ReadySince is since when it is HealthReady with that. If it is not known, the soak time has yet to pass.
	ReadySince time.Time

	// WasReady is true if it is HealthUnreachable and was HealthReady with that before, and ReadyFor is for how long it had been then.
	WasReady bool
	ReadyFor time.Duration
}

// Limit is a number of Clusters, or a percentage of some.
type Limit struct {
	// Count is the number; it counts if Percent is 0.
	Count int

	// Percent is the percentage, from 1 to 100.
	Percent int
}

// Of returns the limit among n Clusters: rounded down, at least 1. A zero Limit is no limit and returns n, at least 1.
func (l Limit) Of(n int) int {
	switch {
	case l.Percent > 0:
		return max(1, n*l.Percent/100)
	case l.Count > 0:
		return l.Count
	default:
		return max(1, n)
	}
}

// Wave is a part of the Clusters that is served before the next.
type Wave struct {
	Name string

	// MaxUnavailable narrows that of the strategy, as a share of the wave.
	MaxUnavailable Limit

	// Soak is how long a Cluster of the wave must be ready to be done.
	Soak time.Duration

	// Manual waits, when the wave is done, until it is promoted.
	Manual bool
}

// Strategy tells how a revision spreads. The zero value is all at once, without a failure budget.
type Strategy struct {
	// Paused tells no Cluster that has another revision of the one that is wanted.
	Paused bool

	// MaxUnavailable bounds how many Clusters are on their way at the same time.
	MaxUnavailable Limit

	// Soak is how long a Cluster in no wave must be ready to be done.
	Soak time.Duration

	// Waves come one after the other, before the Clusters in no wave.
	Waves []Wave

	// Budgeted is true if MaxFailures counts.
	Budgeted bool

	// MaxFailures is the number of failures that ends the rollout.
	MaxFailures Limit

	// Rollback returns the Clusters to the last good revision when the budget is spent, instead of leaving them.
	Rollback bool
}

// Phase is what a rollout is about.
type Phase string

const (
	// PhaseProgressing tells one Cluster after the other.
	PhaseProgressing Phase = "Progressing"

	// PhaseComplete is done with every Cluster that can be served, once. What returns later is served within the limits; no
	// failure ends it any more.
	PhaseComplete Phase = "Complete"

	// PhasePaused has spent its failure budget: what has another revision keeps it.
	PhasePaused Phase = "Paused"

	// PhaseRolledBack has spent its failure budget: what took the revision returns to the last good one.
	PhaseRolledBack Phase = "RolledBack"

	// PhaseAborted was ended on request: what took the revision returns to the last good one.
	PhaseAborted Phase = "Aborted"
)

// State is what is remembered of the rollout of a revision from one plan to the next.
type State struct {
	// Revision is the number of the revision that is wanted.
	Revision int64

	// Good is the number of the last good revision before it; 0 if there is none.
	Good int64

	// Phase of the rollout; any that is none of the above is PhaseProgressing.
	Phase Phase

	// Passed is the name of the last wave that was left behind: the first Cluster of a later one was told. What becomes of the
	// Clusters of such a wave holds no later one any more.
	Passed string

	// Acknowledged are the failures that do not count any more.
	Acknowledged int

	// Reason tells why the phase is what it is, for people.
	Reason string
}

// Requests are what somebody asks of the rollout of the revision that is wanted.
type Requests struct {
	// Continue goes on though the failure budget is spent. It is given once per request.
	Continue bool

	// Abort ends the rollout.
	Abort bool

	// Promoted is the name of the last wave that was promoted; empty if none was.
	Promoted string
}

// Action is what is done for a Cluster.
type Action string

const (
	// ActionNone leaves everything as it is.
	ActionNone Action = "None"

	// ActionCreate tells a Cluster for the first time.
	ActionCreate Action = "Create"

	// ActionUpdate tells a Cluster of something new.
	ActionUpdate Action = "Update"

	// ActionReplace ends the release of the Cluster, so that another one can follow.
	ActionReplace Action = "Replace"

	// ActionDelete ends the release of the Cluster.
	ActionDelete Action = "Delete"
)

// Source tells which of a Cluster's releases a step tells it.
type Source string

const (
	// SourceTarget is Cluster.Target.
	SourceTarget Source = "Target"

	// SourceGood is Cluster.Good.
	SourceGood Source = "Good"

	// SourceOwn is Cluster.Own.
	SourceOwn Source = "Own"

	// SourcePrevious is what the child remembers of the last good revision, where Cluster.Good cannot be told.
	SourcePrevious Source = "Previous"
)

// Step is what is done for one Cluster, and why.
type Step struct {
	// Cluster is the name of the Cluster.
	Cluster string

	// Action is what is done.
	Action Action

	// Source tells what the Cluster is told by ActionCreate and ActionUpdate.
	Source Source

	// Revision is the number of the revision that it is told by them, or because of which ActionReplace ends its release. A child that
	// has it already keeps what it says of how it came to it.
	Revision int64

	// Joined, FailedBefore and Returned are what its child is to say of that.
	Joined, FailedBefore, Returned bool

	// Why tells the reason, for logs.
	Why string

	// Told is true if the Cluster has, or has with this step, what it is to have in the end.
	Told bool
}

// Progress is how far a rollout has come.
type Progress struct {
	// Wave is the index of the wave whose turn it is; len(Strategy.Waves) is the Clusters in no wave, and one more is nobody's.
	Wave int

	// Updated, Done, InFlight and Failed count selected Clusters as they are after the steps, see the API's RolloutStatus. While Clusters
	// return to the last good revision, Done and InFlight are about that one.
	Updated, Done, InFlight, Failed int

	// WaitingFor tells what it takes to go on, for people; empty if nothing is waited for.
	WaitingFor string

	// Promote is the name of the wave that it takes a promotion of; empty if it takes none.
	Promote string

	// DeletionsWaiting is the number of releases, of Clusters that are not selected any more, whose deletion waits for its turn, for the
	// end of a pause or for a confirmation.
	DeletionsWaiting int
}

// Input is all that a plan depends on.
type Input struct {
	Strategy Strategy
	State    State
	Requests Requests
	Clusters []Cluster
	Now      time.Time

	// DeletionsHeld is true while the deletions of the releases of Clusters that are not selected any more wait for a confirmation.
	DeletionsHeld bool
}

// Result is a plan.
type Result struct {
	// Steps are one for each Cluster, in the order of the input.
	Steps []Step

	// State is what to remember, before any step is carried out.
	State State

	Progress Progress

	// RequeueAfter is when time alone changes the plan; 0 is never.
	RequeueAfter time.Duration
}
