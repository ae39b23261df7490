// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// Release identifies a desired or an assigned release.
type Release struct {
	// Identity is the name and the namespace of the release. Releases with different identities are different releases.
	Identity string

	// Content is a digest of everything else that affects the installed release.
	Content string

	// Rest is a digest of the fields that do not affect the installed release, such as the deletion policy.
	Rest string
}

// Child is the release assigned to a Cluster.
type Child struct {
	Release

	// Revision is the number of the revision from which the child is made; 0 if it is not known.
	Revision int64

	// Joined is true if the Cluster was new when this revision was assigned.
	Joined bool

	// AssignedAt is when the present content was assigned. Package rollout does not use it.
	AssignedAt time.Time

	// OfFormerCluster is true if this revision was assigned to a former Cluster with the same name. The Cluster of the
	// plan is new. Joined is then true, and Cluster.Known is false.
	OfFormerCluster bool

	// Unread is true if it is not known yet whether the cluster has the release. This is so for a new child, and after the
	// status of a child of a former Cluster was reset.
	Unread bool

	// FailedBefore is true if the release had failed under a good revision before this revision was assigned.
	FailedBefore bool

	// HasFailures is true if an attempt failed and none succeeded since then, also with an earlier spec of the child.
	HasFailures bool

	// GivenUp is true if the rollout of this revision was rolled back or aborted.
	GivenUp bool

	// Previous is the number of the revision whose release is stored in the child for a rollback; 0 for none.
	Previous int64

	// Deleting is true while the child is under deletion.
	Deleting bool

	// Foreign is true if the release has another owner. The deletion of the child then uninstalls nothing.
	Foreign bool

	// Confirmed is true if a user has confirmed the deletion of the child. Package rollout does not use it.
	Confirmed bool

	// Unobserved is true if it is not known yet whether the child may adopt a release of another owner, or of a lost
	// child.
	Unobserved bool

	// Deferred is true if the child has its spec but waits for maintenance before it changes the release. It may be
	// outdated: it counts only while the Cluster defers changes.
	Deferred bool

	// AwaitsDependencies is true if the child has its spec but waits for dependencies before it changes the release. It
	// may be outdated: it counts only while the Cluster is blocked.
	AwaitsDependencies bool

	// AwaitsAdoption is true if the release has another owner, or is of a lost child, and is adopted when the plan
	// assigns the revision as an update. A child of a Cluster that is not new may wait, too: its former child may be lost
	// and not replaced. AdoptionHeld is true if the plan has assigned it, and the child does not adopt
	// the release because the adoption would change it.
	AwaitsAdoption, AdoptionHeld bool

	// Replaced is true if Deleting is true, and the plan deletes the child to replace its release.
	Replaced bool

	// UnreachableAtDeletion is true if Deleting is true and the Cluster was unreachable when the deletion began.
	UnreachableAtDeletion bool
}

// Pin is the revision to which a user has pinned one Cluster.
type Pin struct {
	// Revision is the number of the revision.
	Revision int64

	// Release is the desired release under the revision; nil if the Cluster cannot or must not have this release.
	Release *Release
}

// Health is the state of a Cluster with the assigned release.
type Health string

const (
	// HealthProgressing means that the release is in progress, or that its health is unknown.
	HealthProgressing Health = ""

	// HealthReady means that the release is installed as assigned, healthy and, if tests are enabled, tested.
	HealthReady Health = "Ready"

	// HealthFailed means that the release failed, whether it will be retried or not.
	HealthFailed Health = "Failed"

	// HealthUnreachable means that the Cluster's API server does not respond.
	HealthUnreachable Health = "Unreachable"
)

// Cluster is the input of a plan for one Cluster.
type Cluster struct {
	// Name is unique among the Clusters of a plan.
	Name string

	// Wave is the index of the Cluster's wave in Strategy.Waves. If the Cluster is in no wave, it is len(Strategy.Waves).
	Wave int

	// Selected is true if the selector selects the Cluster.
	Selected bool

	// Gone is true if the Cluster no longer exists.
	Gone bool

	// Deleting is true if the Cluster is under deletion.
	Deleting bool

	// Paused is true if the Cluster must not be changed.
	Paused bool

	// NotServed is true if HelmOp does not serve the Cluster, so that the end of a pause changes nothing: the Cluster has
	// another shard, or the HelmOp has lost the access to it. Paused is then true, too.
	NotServed bool

	// Initialized is true if the control plane is initialized.
	Initialized bool

	// AfterMove is true if the Cluster has a child whose release HelmOp has not read since a clusterctl move or a restore:
	// the Cluster does not exist yet, is not initialized, or is paused and the child has no status. Both lose statuses,
	// and clusterctl unpauses Clusters one by one.
	AfterMove bool

	// Known is true if the Cluster was initialized when the rollout of the current revision began. Such a Cluster without
	// a child is not new: its release was deleted to be replaced.
	Known bool

	// Blocked is true while a dependency is not ready in the Cluster.
	Blocked bool

	// Defers says which changes of the release wait for maintenance.
	Defers Deferral

	// Target is the desired release under the current revision; nil if it is not known.
	Target *Release

	// TargetInvalid is true if Target is nil because it cannot be rendered for this Cluster. This counts as a failure of
	// the revision.
	TargetInvalid bool

	// Good is the desired release under the last known good revision; nil if there is none or it is not known. A Cluster
	// needs it if it has no child, was re-created or returns to the good revision. During a rollout, an unreachable
	// Cluster needs it, too.
	Good *Release

	// GoodPending is true if Good is not known because of a transient error. A later plan will have it.
	GoodPending bool

	// Own is the desired release under the child's revision; nil if it is not known.
	Own *Release

	// Child is the assigned release; nil for none.
	Child *Child

	// GoalUnapproved is true if the release under the goal of Input.State needs an approval and does not have it.
	// OwnUnapproved is true if the release Own needs an approval and does not have it. Each of the two must be false if
	// its release has the content of the child.
	GoalUnapproved, OwnUnapproved bool

	// Pin is the revision to which a user has pinned the Cluster; nil if there is none. A Cluster with a pin needs Own,
	// even if its child has the current revision.
	Pin *Pin

	// Health is the state of the Cluster with the assigned release.
	Health Health

	// Retrying is true if Health is HealthFailed and another attempt is under way. The Cluster then takes a slot.
	Retrying bool

	// ReadySince is when Health became HealthReady. If it is zero, the soak time has not passed.
	ReadySince time.Time

	// WasReady is true if Health is HealthUnreachable and was HealthReady before, for the time ReadyFor.
	WasReady bool
	ReadyFor time.Duration
}

// Deferral says which changes of a release wait for maintenance. The zero value defers nothing.
type Deferral struct {
	// Changes defers all changes except the changes of the other fields.
	Changes bool

	// Installations defers the installation of a release in a new Cluster. Returns defers the return to the last known
	// good revision, or to a pinned revision.
	Installations, Returns bool

	// Opens is when changes are permitted again; zero if the time is not known, for example because of a veto.
	Opens time.Time
}

// Limit is a number of Clusters or a percentage.
type Limit struct {
	// Count is the number. It is used if Percent is 0.
	Count int

	// Percent is the percentage, from 1 to 100.
	Percent int
}

// Of returns the limit for n Clusters, rounded down, but at least 1. If Limit is zero, it returns n, but at least 1.
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

// Wave is a group of Clusters that is updated before the next group.
type Wave struct {
	Name string

	// MaxUnavailable limits the wave in addition to the strategy's limit. A percentage refers to the wave.
	MaxUnavailable Limit

	// Soak is how long a Cluster of the wave must be ready to be done.
	Soak time.Duration

	// Manual requires a promotion after the wave is done.
	Manual bool
}

// Strategy configures how a revision is rolled out. The zero value updates all Clusters at once, without a failure
// budget.
type Strategy struct {
	// Paused makes every outdated Cluster keep its revision.
	Paused bool

	// MaxUnavailable limits how many Clusters are in flight at the same time.
	MaxUnavailable Limit

	// Soak is how long a Cluster in no wave must be ready to be done.
	Soak time.Duration

	// Waves are updated in order, before the Clusters in no wave.
	Waves []Wave

	// Budgeted is true if MaxFailures applies.
	Budgeted bool

	// MaxFailures is the number of failed Clusters that ends the rollout.
	MaxFailures Limit

	// Rollback returns the Clusters to the last known good revision when the budget is spent. Otherwise the rollout is
	// paused.
	Rollback bool
}

// Phase is the phase of a rollout.
type Phase string

const (
	// PhaseProgressing means that Clusters are being updated.
	PhaseProgressing Phase = "Progressing"

	// PhaseComplete means that every Cluster that could be served was updated. Clusters that can be served later are
	// updated within the limits. Failures no longer end the rollout.
	PhaseComplete Phase = "Complete"

	// PhasePaused means that the failure budget is spent. Outdated Clusters keep their revision.
	PhasePaused Phase = "Paused"

	// PhaseRolledBack means that the failure budget is spent. Updated Clusters return to the last known good revision.
	PhaseRolledBack Phase = "RolledBack"

	// PhaseAborted means that a user ended the rollout. Updated Clusters return to the last known good revision.
	PhaseAborted Phase = "Aborted"
)

// State is the state of a rollout that the caller stores between plans.
type State struct {
	// Revision is the number of the current revision.
	Revision int64

	// First is true if no revision before the current one is known: for a new HelmOp, and after a restore without
	// revisions, for which the number may be higher than 1.
	First bool

	// Good is the number of the last known good revision before the current one; 0 if there is none.
	Good int64

	// Phase is the phase of the rollout. Unknown values mean PhaseProgressing.
	Phase Phase

	// Passed is the name of the last closed wave. A wave is closed when a Cluster of a later wave was updated. Clusters of
	// a closed wave no longer delay later waves.
	Passed string

	// Acknowledged is the number of failures that a user acknowledged. They do not count until they are repaired.
	Acknowledged int

	// Reason explains the phase to users.
	Reason string
}

// Goal returns the number of the desired revision of the Clusters: the current revision, or the last known good
// revision after a rollback or an abort. If there is no good revision, the current revision stays the goal.
func (s *State) Goal() int64 {
	if (s.Phase == PhaseRolledBack || s.Phase == PhaseAborted) && s.Good != 0 {
		return s.Good
	}
	return s.Revision
}

// Requests are the requests of users for the rollout of the current revision.
type Requests struct {
	// Continue continues a rollout whose failure budget is spent. The caller sets it once for each request.
	Continue bool

	// Abort ends the rollout.
	Abort bool

	// Promoted is the name of the last promoted wave; empty for none.
	Promoted string
}

// Action is the kind of a step.
type Action string

const (
	// ActionNone changes nothing.
	ActionNone Action = "None"

	// ActionCreate assigns the first release to a Cluster.
	ActionCreate Action = "Create"

	// ActionUpdate assigns a new release to a Cluster.
	ActionUpdate Action = "Update"

	// ActionReplace deletes the release of the Cluster, so that another release can be installed.
	ActionReplace Action = "Replace"

	// ActionDelete deletes the release of the Cluster.
	ActionDelete Action = "Delete"
)

// Source says which release of a Cluster a step assigns.
type Source string

const (
	// SourceTarget is Cluster.Target.
	SourceTarget Source = "Target"

	// SourceGood is Cluster.Good.
	SourceGood Source = "Good"

	// SourceOwn is Cluster.Own.
	SourceOwn Source = "Own"

	// SourcePin is Cluster.Pin.Release.
	SourcePin Source = "Pin"

	// SourcePrevious is the release that the child stores for a rollback. It is used if Cluster.Good is unknown.
	SourcePrevious Source = "Previous"
)

// Step is the next action for one Cluster.
type Step struct {
	// Cluster is the name of the Cluster.
	Cluster string

	// Action is the kind of the step.
	Action Action

	// Source is the release that ActionCreate and ActionUpdate assign.
	Source Source

	// Revision is the number of the revision that ActionCreate and ActionUpdate assign. For ActionReplace, it is the
	// revision that causes the replacement. If the child already has the revision, its Joined and FailedBefore stay.
	Revision int64

	// The caller must store Joined, FailedBefore, Returned and Pinned in the child.
	Joined, FailedBefore, Returned, Pinned bool

	// Adopts is true if the child may adopt a release of another owner or of a lost child after this step. Joined is then
	// false. A new child may not do so before. An update to a revision with another content permits it, too, without
	// Joined and Returned, and so does a pin.
	Adopts bool

	// Why is the reason, for logs.
	Why string

	// Assigned is true if the Cluster has its final desired release, or gets it in this step.
	Assigned bool

	// Unapproved is true if the step is ActionNone because an approval is missing. Deferred is true if it is ActionNone
	// because the change waits for maintenance.
	Unapproved, Deferred bool
}

// Progress is the progress of a rollout.
type Progress struct {
	// Wave is the index of the wave that is being updated. len(Strategy.Waves) means the Clusters in no wave. A larger
	// index means none.
	Wave int

	// Updated, Done, InFlight and Failed count the selected Clusters after the steps, see the API's RolloutStatus. During
	// a rollback, Done and InFlight refer to the last known good revision.
	Updated, Done, InFlight, Failed int

	// WaitingFor says what the rollout waits for, as a text for users; empty if it does not wait.
	WaitingFor string

	// Promote is the name of the wave that needs a promotion; empty if there is none.
	Promote string

	// Opens is the earliest time at which a Cluster that waits for maintenance may be changed. Only Clusters that the
	// rollout would change now count. It is zero if there is no such Cluster, or if the time is not known.
	Opens time.Time

	// DeletionsWaiting is the number of releases of unselected Clusters whose deletion waits for a slot, for the end of a
	// pause or for a confirmation.
	DeletionsWaiting int
}

// Input is the complete input of a plan.
type Input struct {
	Strategy Strategy
	State    State
	Requests Requests
	Clusters []Cluster
	Now      time.Time

	// Unapproved is true while the current revision must not be assigned to any Cluster because it is not approved.
	Unapproved bool

	// DeletionsHeld is true while deletions of releases of unselected Clusters wait for a confirmation.
	DeletionsHeld bool
}

// Result is a plan.
type Result struct {
	// Steps has one step for each Cluster, in the order of the input.
	Steps []Step

	// State is the new state. The caller must store it before it carries out any step.
	State State

	Progress Progress

	// RequeueAfter is the time after which the plan may change without an event; 0 means never.
	RequeueAfter time.Duration
}
