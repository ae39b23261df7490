// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"math/rand"
	"strconv"
	"time"
)

// world is a fleet and the events in it. A plan gets only what a controller would read: the Clusters, their children
// and State. Nothing else is kept between plans, so every plan is also one after a restart.
type world struct {
	rng       *rand.Rand
	now       time.Time
	strategy  Strategy
	state     State
	requests  Requests
	clusters  []*member
	revisions map[int64]*revision
	nextName  int

	deletionsHeld bool

	// adopts is true if releases of other owners are adopted.
	adopts bool

	// approvalRequired is true if approvals are required, and approved has the approved releases by revision and Cluster.
	approvalRequired bool
	approved         map[int64]map[string]Release

	// maintained is true if Clusters have windows and vetoes. includes has the additional changes to which the windows
	// apply.
	maintained bool
	includes   Deferral
}

// revision is a HelmOp revision.
type revision struct {
	identity string
	started  time.Time

	// base is the content of the release of a Cluster. A Cluster may have the same content under two revisions.
	base map[string]string

	// invalid are the Clusters for which the release cannot be rendered. bad are the Clusters in which the release fails
	// at first.
	invalid, bad map[string]bool

	// lost is true if the revision can no longer be rendered.
	lost bool

	// givenUp is true if a later revision was created after a rollback or an abort of this revision.
	givenUp bool
}

// member is a Cluster with state that a plan cannot use.
type member struct {
	Cluster
	local, rest int

	// alias is the part of the identity that depends on the Cluster itself.
	alias     int
	born      time.Time
	reachable bool
	darkAt    time.Time

	// pin is the revision to which a user has pinned the Cluster; 0 for none.
	pin int64

	// opens is when the next window of the Cluster opens. vetoed is true while there is no such time.
	opens  time.Time
	vetoed bool

	// exempt is true if the release gets its spec even in a closed Cluster. deferred is true while the child reports that
	// it waits. This may be outdated.
	exempt, deferred bool

	// awaits is true if the child reports that it waits for a dependency. This may be outdated.
	awaits bool

	// unresolved is true while the desired release of the Cluster is unknown, although it can be rendered.
	unresolved bool

	// foreign is true while the cluster has the release of another owner, or of a lost child. observed is true if the
	// child shows that. unreached is true if no plan has permitted the change of such a release since the child exists.
	foreign, observed, unreached bool

	// moved is true if the status of the child was lost and the release was not read since then.
	moved bool

	// conflicting is true if foreign is true and a user has to permit the takeover of the release.
	conflicting bool

	// retries is true if another attempt is under way when health is HealthFailed.
	retries bool

	// health is the health of the release, whether the Cluster is reachable or not.
	health Health
	since  time.Time
}

var worldStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(seed int64) *world {
	w := &world{rng: rand.New(rand.NewSource(seed)), now: worldStart, revisions: map[int64]*revision{},
		approved: map[int64]map[string]Release{}}
	w.approvalRequired, w.adopts = w.chance(30), w.chance(40)
	if w.maintained = seed%3 == 0; w.maintained {
		w.includes = Deferral{Installations: w.chance(30), Returns: w.chance(30)}
	}
	w.changeStrategy()
	for range 1 + w.rng.Intn(60) {
		w.addCluster()
	}
	w.wantRevision()
	return w
}

func (w *world) chance(percent int) bool { return w.rng.Intn(100) < percent }

func (w *world) limit() Limit {
	switch w.rng.Intn(3) {
	case 0:
		return Limit{}
	case 1:
		return Limit{Count: 1 + w.rng.Intn(5)}
	default:
		return Limit{Percent: 1 + w.rng.Intn(100)}
	}
}

func (w *world) soakTime() time.Duration {
	return time.Duration(w.rng.Intn(3)) * time.Minute
}

func (w *world) changeStrategy() {
	w.strategy = Strategy{
		MaxUnavailable: w.limit(), Soak: w.soakTime(),
		Budgeted: w.chance(70), MaxFailures: w.limit(), Rollback: w.chance(50), Paused: w.chance(5),
	}
	for i := range w.rng.Intn(4) {
		w.strategy.Waves = append(w.strategy.Waves, Wave{
			Name: fmt.Sprintf("w%d", i), MaxUnavailable: w.limit(), Soak: w.soakTime(), Manual: w.chance(20),
		})
	}
	for _, c := range w.clusters {
		c.Wave = min(c.Wave, len(w.strategy.Waves))
	}
}

func (w *world) addCluster() {
	w.nextName++
	w.clusters = append(w.clusters, &member{
		Cluster: Cluster{
			Name: fmt.Sprintf("c%03d", w.nextName), Wave: w.rng.Intn(len(w.strategy.Waves) + 1),
			Selected: w.chance(95), Initialized: w.chance(90),
		},
		born: w.now, reachable: w.chance(95), foreign: w.adopts && w.chance(50),
	})
}

// wantRevision creates the next revision as the controller does. The last completed revision becomes the last known
// good one.
func (w *world) wantRevision() {
	good := w.state.Good
	if w.state.Phase == PhaseComplete {
		good = w.state.Revision
	}
	before := w.revisions[w.state.Revision]
	number := w.state.Revision + 1
	next := &revision{identity: "ns/a", started: w.now, base: map[string]string{}, invalid: map[string]bool{},
		bad: map[string]bool{}}
	if before != nil {
		next.identity = before.identity
	}
	if before != nil && w.chance(10) {
		next.identity = fmt.Sprintf("ns/r%d", number)
	}
	badness := []int{0, 0, 10, 60}[w.rng.Intn(4)]
	for i := range w.nextName + 50 {
		name := fmt.Sprintf("c%03d", i)
		next.base[name] = fmt.Sprintf("r%d", number)
		if before != nil && w.chance(10) {
			next.base[name] = before.base[name]
		}
		next.invalid[name] = w.chance(1)
		next.bad[name] = w.chance(badness)
	}
	if good != 0 && w.chance(10) {
		w.revisions[good].lost = true
	}
	if w.state.Goal() != w.state.Revision {
		before.givenUp = true
	}
	w.revisions[number] = next
	w.state = State{Revision: number, Good: good, First: len(w.revisions) == 1}
	w.requests = Requests{}
}

// under returns the desired release of a Cluster under a revision.
func (w *world) under(c *member, number int64) *Release {
	r := w.revisions[number]
	if r == nil || r.lost || r.invalid[c.Name] || !c.Selected || c.Gone || c.Deleting || !c.Initialized {
		return nil
	}
	identity := r.identity
	if c.alias > 0 {
		identity += "-" + strconv.Itoa(c.alias)
	}
	return &Release{Identity: identity, Content: r.base[c.Name] + "/" + strconv.Itoa(c.local), Rest: strconv.Itoa(c.rest)}
}

// input returns what the controller reads.
func (w *world) input() Input {
	in := Input{Strategy: w.strategy, State: w.state, Requests: w.requests, Now: w.now, DeletionsHeld: w.deletionsHeld}
	for _, c := range w.clusters {
		seen := c.Cluster
		seen.Known = c.born.Before(w.revisions[w.state.Revision].started)
		seen.Target = w.under(c, w.state.Revision)
		seen.TargetInvalid = seen.Target == nil && w.revisions[w.state.Revision].invalid[c.Name]
		if c.unresolved {
			seen.Target, seen.TargetInvalid = nil, false
		}
		if w.needsGood(c) {
			seen.Good = w.under(c, w.state.Good)
		}
		seen.Health, seen.ReadySince = HealthProgressing, time.Time{}
		if c.Child != nil {
			child := *c.Child
			child.Unobserved = (w.adopts || w.state.First) && child.Joined && !c.observed
			child.AwaitsAdoption = c.mayNotAdopt() && c.observed && !c.conflicting
			child.Foreign, child.Unread = c.conflicting && c.observed, !c.observed || !c.reachable
			child.HasFailures = c.health == HealthFailed
			child.GivenUp = w.revisions[child.Revision].givenUp
			seen.Child, seen.Own, seen.Health = &child, w.under(c, child.Revision), c.health
			seen.AfterMove = !c.Initialized || c.Paused && c.moved
			if child.Revision == w.state.Revision {
				seen.Own = seen.Target
			}
		}
		if c.pin != 0 {
			seen.Pin = &Pin{Revision: c.pin, Release: w.under(c, c.pin)}
			seen.Target, seen.TargetInvalid, seen.Good = nil, false, nil
			seen.Own = w.under(c, c.Child.Revision)
		}
		if w.isClosed(c) {
			seen.Defers = Deferral{Changes: true, Installations: w.includes.Installations, Returns: w.includes.Returns}
			if !c.vetoed {
				seen.Defers.Opens = c.opens
			}
		}
		if seen.Child != nil {
			seen.Child.Deferred = c.deferred && c.health == HealthProgressing
			seen.Child.AwaitsDependencies = c.awaits && c.health == HealthProgressing
		}
		seen.Retrying = c.reachable && seen.Health == HealthFailed && c.retries
		if seen.Health == HealthReady {
			seen.ReadySince = c.since
		}
		if c.moved && c.Child != nil {
			seen.Health, seen.ReadySince, seen.Retrying = HealthProgressing, time.Time{}, false
			seen.Child.HasFailures, seen.Child.Deferred, seen.Child.AwaitsDependencies = false, false, false
		} else if !c.reachable {
			seen.Health, seen.WasReady, seen.ReadyFor = HealthUnreachable, c.health == HealthReady, c.darkAt.Sub(c.since)
		}
		in.Clusters = append(in.Clusters, seen)
	}
	w.findUnapproved(&in)
	return in
}

// needsGood is true for a Cluster whose release under the last known good revision the controller renders.
func (w *world) needsGood(c *member) bool {
	isGivenUp := w.state.Goal() != w.state.Revision
	return c.Child == nil || isGivenUp || w.revisions[c.Child.Revision].givenUp ||
		!c.reachable && w.state.Phase != PhaseComplete
}

// isClosed is true while the release of a Cluster must not be changed.
func (w *world) isClosed(c *member) bool { return c.vetoed || c.opens.After(w.now) }

// waits is true for a closed Cluster whose release does not have its spec yet.
func (c *member) waits() bool {
	return c.health == HealthProgressing && !c.exempt && !c.Child.Deleting && !c.mayNotAdopt()
}

// closeOrOpen changes the maintenance of a Cluster.
func (w *world) closeOrOpen(c *member) {
	c.opens, c.vetoed = time.Time{}, w.chance(20)
	if w.chance(60) {
		c.opens = w.now.Add(time.Duration(1+w.rng.Intn(600)) * time.Second)
	}
}

// findUnapproved sets what is not approved, like package approval.
func (w *world) findUnapproved(in *Input) {
	if !w.approvalRequired {
		return
	}
	goal := w.state.Goal()
	in.Unapproved = goal == w.state.Revision && w.approved[goal] == nil && w.state.Phase != PhaseComplete
	for i := range in.Clusters {
		c := &in.Clusters[i]
		isApproved := func(number int64, release *Release) bool {
			approved, ok := w.approved[number][c.Name]
			return release == nil || c.Child != nil && sameContent(c.Child.Release, *release) ||
				ok && sameContent(approved, *release)
		}
		release, isReturn := c.Target, false
		if goal != w.state.Revision {
			release, isReturn = c.Good, c.Child != nil && c.Child.Revision != goal
		}
		c.GoalUnapproved = !isApproved(goal, release) && !isReturn && (in.Unapproved || c.Child != nil)
		c.OwnUnapproved = c.Child != nil && !isApproved(c.Child.Revision, c.Own)
	}
}

// approve approves all releases under the goal.
func (w *world) approve() {
	goal := w.state.Goal()
	w.approved[goal] = map[string]Release{}
	for _, c := range w.clusters {
		if release := w.under(c, goal); release != nil {
			w.approved[goal][c.Name] = *release
		}
	}
}

// carryOut acts like the controller: it first stores the state and then carries out the steps. It does not carry out a
// plan that changes the goal: for the new goal, more releases must be known. A crash prevents some steps.
func (w *world) carryOut(result Result, crash bool) {
	changesGoal := result.State.Goal() != w.state.Goal()
	w.state, w.requests.Continue = result.State, false
	if changesGoal {
		return
	}
	for i, step := range result.Steps {
		if crash && w.chance(50) {
			continue
		}
		c := w.clusters[i]
		switch step.Action {
		case ActionDelete, ActionReplace:
			c.Child.Deleting, c.Child.UnreachableAtDeletion = true, !c.reachable && !c.moved
			c.Child.Replaced = step.Action == ActionReplace
			c.health = HealthProgressing
		case ActionCreate, ActionUpdate:
			w.apply(c, step)
		}
	}
}

func (w *world) apply(c *member, step Step) {
	before := c.Child
	var own *Release
	if before != nil {
		own = w.under(c, before.Revision)
	}
	next := &Child{Revision: step.Revision, Joined: step.Joined, FailedBefore: step.FailedBefore}
	switch step.Source {
	case SourceTarget:
		next.Release = *w.under(c, w.state.Revision)
	case SourceGood:
		next.Release = *w.under(c, w.state.Good)
	case SourceOwn:
		next.Release = *w.under(c, before.Revision)
	case SourcePin:
		next.Release = *w.under(c, c.pin)
	case SourcePrevious:
		next.Release = Release{Identity: before.Identity, Content: fmt.Sprintf("previous/%d", step.Revision)}
	}
	switch {
	case before == nil:
	case before.Revision == step.Revision:
		next.Previous = before.Previous
	case before.Revision == w.state.Good:
		next.Previous = w.state.Good
	case before.Previous == w.state.Good:
		next.Previous = before.Previous
	}
	if before == nil || !sameContent(before.Release, next.Release) {
		c.health, c.deferred, c.awaits = HealthProgressing, false, false
		c.exempt = before == nil && !w.includes.Installations ||
			(step.Returned || step.Pinned) && !w.includes.Returns
	}
	switch {
	case before == nil:
		c.unreached = true
	case step.Adopts, step.Pinned, !step.Joined && !step.Returned && before.Revision != step.Revision &&
		!sameContent(before.Release, next.Release) && (own == nil || !sameContent(*own, next.Release)):
		c.unreached = false
	}
	c.Child = next
}

// mayNotAdopt is true if the release of a Cluster has another owner and the plan has not assigned its adoption.
func (c *member) mayNotAdopt() bool { return c.foreign && (c.Child.Joined || c.unreached) }

// settle makes the release of a Cluster ready or failed.
func (w *world) settle(c *member, faults bool) {
	if !w.isClosed(c) {
		c.deferred = false
	}
	if !c.Blocked {
		c.awaits = false
	}
	switch {
	case c.Child == nil || !c.reachable && faults:
	case c.Child.Deleting:
		c.Child, c.pin, c.observed, c.moved = nil, 0, false, false
	case c.moved && (c.Paused || !c.Initialized):
	case !c.observed && !c.Blocked:
		c.observed, c.moved, c.since = true, false, w.now
	case c.conflicting && c.observed:
		c.health, c.conflicting = HealthFailed, !w.chance(20)
		if !c.conflicting {
			c.health = HealthProgressing
		}
	case c.mayNotAdopt():
	case w.isClosed(c) && c.waits():
		c.deferred = true
	case c.foreign:
		c.foreign = false
	case c.health == HealthProgressing && c.Blocked && (c.awaits || w.chance(50)):
		c.awaits = true
	case c.health == HealthProgressing && faults && w.revisions[c.Child.Revision].bad[c.Name]:
		c.health, c.retries = HealthFailed, w.chance(50)
	case c.health == HealthProgressing, c.health == HealthFailed && !c.Blocked:
		c.health, c.since = HealthReady, w.now
	}
}

// happen applies a random event to the fleet.
func (w *world) happen() {
	if len(w.clusters) == 0 || w.chance(3) {
		w.addCluster()
		return
	}
	c := w.clusters[w.rng.Intn(len(w.clusters))]
	if w.maintained && w.chance(15) {
		w.closeOrOpen(c)
		return
	}
	switch n := w.rng.Intn(100); {
	case n < 55:
		w.settle(c, true)
	case n < 60:
		c.reachable, c.darkAt = !c.reachable, w.now
	case n < 64:
		c.Blocked = !c.Blocked
	case n < 67:
		c.Paused = !c.Paused
	case n < 69:
		c.local++
	case n < 70 && w.chance(50):
		c.rest++
	case n < 70:
		c.alias++
	case n < 71 && w.chance(10):
		w.loseSelection()
	case n < 72:
		c.Selected = !c.Selected
	case n < 74:
		c.Initialized = true
	case n < 80 && c.Child != nil && c.foreign:
	case n < 77 && c.Child != nil && c.health == HealthFailed:
		c.health, c.since = HealthReady, w.now
	case n < 79 && c.Child != nil:
		c.health = HealthProgressing
	case n < 80 && c.Child != nil:
		c.health = HealthFailed
	case n < 82 && c.Child == nil:
		c.Gone, c.Deleting = false, false
	case n < 83:
		c.Deleting = true
	case n < 84:
		c.Gone = true
	case n < 85 && w.chance(50):
		c.unresolved = !c.unresolved
	case n < 85:
		c.Wave = w.rng.Intn(len(w.strategy.Waves) + 1)
	case n < 87 && c.pin == 0 && c.Child != nil:
		c.pin = 1 + w.rng.Int63n(w.state.Revision)
	case n < 87:
		c.pin = 0
	case n < 92:
		w.now = w.now.Add(time.Duration(w.rng.Intn(90)) * time.Second)
	default:
		w.userActs()
	}
}

// loseSelection unselects a part of the Clusters at once.
func (w *world) loseSelection() {
	for _, c := range w.clusters {
		c.Selected = c.Selected && w.chance(50)
	}
}

// restore loses all children, as a restore without them does. The releases stay in the clusters. If the revisions are
// lost, too, the next revision is the first one that is known. Its number is not used before.
func (w *world) restore() {
	for _, c := range w.clusters {
		if c.Child != nil {
			c.Child, c.pin, c.observed, c.moved, c.foreign = nil, 0, false, false, w.chance(70)
			c.conflicting = c.foreign && w.chance(40)
		}
	}
	if w.chance(50) {
		w.revisions, w.state = map[int64]*revision{}, State{Revision: w.state.Revision}
	}
	w.wantRevision()
}

// move loses the statuses of all Clusters and children, as clusterctl move does. The Clusters are initialized and
// unpaused again one by one.
func (w *world) move() {
	for _, c := range w.clusters {
		c.Initialized, c.Paused = c.Initialized && w.chance(50), c.Paused || w.chance(50)
		c.observed, c.moved = c.observed && c.Child == nil, c.Child != nil
	}
}

func (w *world) userActs() {
	switch n := w.rng.Intn(22); {
	case n < 3:
		w.wantRevision()
	case n < 4:
		w.changeStrategy()
	case n < 7:
		w.strategy.Paused = !w.strategy.Paused
	case n < 10:
		w.requests.Continue = true
	case n < 11:
		w.requests.Abort = true
	case n < 14:
		w.deletionsHeld = !w.deletionsHeld
	case n < 17:
		w.approve()
	case n < 18:
		w.approvalRequired = !w.approvalRequired
	case n < 19:
		w.restore()
	case n < 20:
		w.move()
	case len(w.strategy.Waves) > 0:
		w.requests.Promoted = w.strategy.Waves[w.rng.Intn(len(w.strategy.Waves))].Name
	}
}

// calm ends all trouble, except for decisions of the failure budget. Windows open by themselves.
func (w *world) calm() {
	w.strategy.Paused, w.deletionsHeld = false, false
	w.requests = Requests{}
	if n := len(w.strategy.Waves); n > 0 {
		w.requests.Promoted = w.strategy.Waves[n-1].Name
	}
	for _, r := range w.revisions {
		r.lost, r.invalid = false, nil
	}
	for _, c := range w.clusters {
		c.reachable, c.Blocked, c.Paused, c.Initialized, c.Deleting, c.unresolved = true, false, false, true, false, false
		c.pin, c.vetoed = 0, false
		if c.conflicting {
			c.conflicting, c.health = false, HealthProgressing
		}
		// A release is observed, adopted and then ready.
		for range 3 {
			w.settle(c, false)
		}
	}
	w.approve()
}
