// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/slots"
)

// TestUncomparableObjectsDoNotDelayOthers has objects that cannot be compared. All other objects must be compared and
// corrected once, and unchanged objects must not be read again.
func TestUncomparableObjectsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	for _, unserved := range []int{0, 1, 11} {
		t.Run(fmt.Sprint(unserved), func(t *testing.T) {
			t.Parallel()
			b := newDriftBench(t, 50, unserved)
			status, reason, message := report.False, addonsv1.NoDriftReason, ""
			if unserved > 0 {
				status, reason, message = metav1Unknown, addonsv1.DriftCheckFailedReason, "does not serve the kind"
			}
			b.edit("c0")
			if reads := b.pass(); reads != 50 || b.patches != 1 {
				t.Fatalf("%d objects read, %d corrected", reads, b.patches)
			}
			b.want(status, reason, message)
			if !b.p.release.Status.Drift.LastCheckedAt.Time.Equal(b.now) {
				t.Errorf("checked at %s", b.p.release.Status.Drift.LastCheckedAt)
			}
			b.now = b.now.Add(time.Second)
			if reads := b.pass(); reads != 1 {
				t.Errorf("only the corrected object must be read again, but %d objects were read", reads)
			}
			for range 3 {
				b.now = b.now.Add(10 * time.Minute)
				asked := b.engine.asked
				if reads := b.pass(); reads != 0 || unserved == 0 && b.engine.asked != asked {
					t.Errorf("nothing changed, but %d objects were read", reads)
				}
				b.want(status, reason, message)
			}
			if hasFingerprint := b.p.release.Status.Drift.Fingerprint != ""; hasFingerprint != (unserved == 0) {
				t.Errorf("fingerprint %q", b.p.release.Status.Drift.Fingerprint)
			}
			b.p.policy.CorrectDrift = false
			b.edit("c1")
			b.pass()
			b.want(report.True, addonsv1.DriftDetectedReason, "c1 differs")
			b.want(report.True, addonsv1.DriftDetectedReason, message)
		})
	}
}

// TestUnreadableManifestIsReadAgainAfterDelay checks that events do not cause another read of a manifest after a failed
// read.
func TestUnreadableManifestIsReadAgainAfterDelay(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	b.engine.err = errors.New("the record cannot be read")
	for range 5 {
		b.pass()
		b.now = b.now.Add(time.Second)
		b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, "the record cannot be read")
	}
	if b.engine.asked != 1 || b.p.requeueAfter <= 0 || b.p.requeueAfter > time.Minute {
		t.Errorf("asked %d times, due in %s", b.engine.asked, b.p.requeueAfter)
	}
	b.engine.err = nil
	b.now = b.now.Add(time.Minute)
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
}

// TestRetryRequestComparesAndCorrectsAtOnce checks that a retry request ends the waits after a failed comparison and
// after a failed correction, and does so only once.
func TestRetryRequestComparesAndCorrectsAtOnce(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	request := func(value string) {
		b.p.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: value}
		b.pass()
	}
	b.engine.err = errors.New("the record cannot be read")
	b.pass()
	request("1")
	request("1")
	if b.engine.asked != 2 {
		t.Errorf("the manifest is read %d times", b.engine.asked)
	}
	b.engine.err = nil
	b.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c0", errors.New("refused"))
	b.edit("c0")
	request("2")
	b.want(report.True, addonsv1.DriftCorrectionFailedReason, "")
	b.refuse = nil
	request("2")
	b.want(report.True, addonsv1.DriftCorrectionFailedReason, "")
	request("3")
	b.want(report.False, addonsv1.NoDriftReason, "")
}

// TestChangedDriftRuleCountsAtOnce checks that the next pass uses a corrected or changed ignore rule.
func TestChangedDriftRuleCountsAtOnce(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	b.p.policy.CorrectDrift = false
	b.edit("c0")
	ignore := func(path string) {
		b.p.release.Spec.DriftDetection.Ignore = []addonsv1.DriftIgnoreRule{{Paths: []string{path}}}
		b.pass()
	}
	ignore("data")
	b.want(metav1Unknown, addonsv1.InvalidDriftRuleReason, "data")
	ignore("/other")
	b.want(report.True, addonsv1.DriftDetectedReason, "c0")
	ignore("/data")
	b.want(report.False, addonsv1.NoDriftReason, "")
}

// TestComparisonTakesSlot checks that a comparison or a correction needs a slot, like an action.
func TestComparisonTakesSlot(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	var taken []func()
	take := func() {
		for i := range slots.DefaultPerCluster {
			if done, ok := b.r.slots.Acquire(slots.Claim{Release: controllertest.RequestFor(strconv.Itoa(i)).NamespacedName,
				Cluster: b.p.target.Key, HelmOp: "other"}); ok {
				taken = append(taken, done)
			}
		}
	}
	free := func() {
		for _, done := range taken {
			done()
		}
		taken = nil
	}
	take()
	if reads := b.pass(); reads != 0 || b.p.requeueAfter != 0 {
		t.Fatalf("%d objects read, due in %s", reads, b.p.requeueAfter)
	}
	free()
	if reads := b.pass(); reads != 3 {
		t.Fatalf("%d objects read", reads)
	}
	b.edit("c0")
	b.r.assessDrift(t.Context(), b.p)
	take()
	b.p.requeueAfter, b.p.drift.RequeueAfter = 0, 0
	b.r.correctDrift(t.Context(), b.p)
	if b.patches != 0 || b.p.requeueAfter != 0 {
		t.Errorf("%d corrected, due in %s", b.patches, b.p.requeueAfter)
	}
	free()
	if b.pass(); b.patches != 1 {
		t.Errorf("%d corrected", b.patches)
	}
	take()
	if len(taken) != slots.DefaultPerCluster {
		t.Errorf("%d slots are left", len(taken))
	}
}

// TestFailedCorrectionIsNotContested checks that a failed correction is reported with its cause and without another
// program. This must also be true while the next try waits.
func TestFailedCorrectionIsNotContested(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	b.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c0",
		errors.New("ValidatingAdmissionPolicy 'by policy' with binding 'all' denied request: no"))
	b.edit("c0")
	for range 20 {
		b.pass()
		b.want(report.True, addonsv1.DriftCorrectionFailedReason, "by policy")
		b.wantState(model.StateDrifted)
		if !b.p.release.Status.Drift.Objects[0].HeldUntil.IsZero() || b.p.requeueAfter > driftmemory.Interval(b.p.release) {
			t.Fatalf("status %+v, due in %s", b.p.release.Status.Drift, b.p.requeueAfter)
		}
		b.now = b.now.Add(40 * time.Second)
	}
	recorded := 0
	for range len(b.recorder.Events) {
		if strings.Contains(<-b.recorder.Events, addonsv1.DriftCorrectionFailedReason) {
			recorded++
		}
	}
	// There is one Event on the release and one on its HelmOp.
	if recorded != 2 {
		t.Errorf("%d Events", recorded)
	}
	b.refuse = nil
	b.now = b.now.Add(time.Hour)
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
	b.wantState(model.StateInSync)
}

// TestNoCorrectionForReleaseOfOtherManager checks that nothing is corrected if the release has left the shard or is
// under deletion: another manager may have deleted the objects.
func TestNoCorrectionForReleaseOfOtherManager(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*driftBench) error{
		"of another shard": func(b *driftBench) error { return b.r.client.Delete(t.Context(), b.p.release.DeepCopy()) },
		"under deletion": func(b *driftBench) error {
			deleting := b.p.release.DeepCopy()
			deleting.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
			return errors.Join(b.r.client.Update(t.Context(), deleting), b.r.client.Delete(t.Context(), deleting))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDriftBench(t, 2, 0)
			b.edit("c0")
			b.missing = "c1"
			b.vanish("c1")
			if err := lose(b); err != nil {
				t.Fatal(err)
			}
			b.pass()
			if b.patches+b.posts > 0 {
				t.Errorf("%d objects were patched, %d created", b.patches, b.posts)
			}
			b.want(report.True, addonsv1.DriftDetectedReason, "")
		})
	}
}

// TestKnownDifferencesHaveNoContent checks that the memory of a release has neither the objects nor the patches that
// correct its differences.
func TestKnownDifferencesHaveNoContent(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.edit("c0")
	b.missing = "c1"
	b.vanish("c1")
	b.r.assessDrift(t.Context(), b.p)
	cluster := drift.Cluster{Config: b.engine.access.Config, Mapper: b.engine.access.Mapper}
	for ref, known := range b.memory().Differing {
		if err := drift.Correct(t.Context(), cluster, known); err == nil ||
			!strings.Contains(err.Error(), "not returned by a comparison") {
			t.Errorf("%s is corrected from the memory: %v", ref, err)
		}
	}
	if len(b.memory().Differing) != 2 || len(b.p.drift.Differences) != 2 {
		t.Errorf("known are %v, found are %v", b.memory().Differing, b.p.drift.Differences)
	}
}

// TestForeignObjectIsNotContested checks an object that now belongs to another release. Its difference must not be
// reported as contested.
func TestForeignObjectIsNotContested(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	for range 5 {
		b.r.assessDrift(t.Context(), b.p)
		b.p.drift.Differences = []drift.Difference{{Ref: b.refs[0], Paths: []string{"/metadata"}, Owner: "apps/other"}}
		b.memory().Differing[b.refs[0]] = b.p.drift.Differences[0]
		b.r.correctDrift(t.Context(), b.p)
		b.want(report.True, addonsv1.DriftCorrectionFailedReason, "the object now belongs to release apps/other")
		b.now = b.now.Add(driftmemory.Retry)
	}
}

// TestConflictIsNotContested checks that corrections that failed with a conflict do not count as a contest.
func TestConflictIsNotContested(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	b.refuse = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c0", errors.New("it changed"))
	b.edit("c0")
	for range 5 {
		// The second read finds out whether only the status of the object changed.
		if reads := b.pass(); reads != 2 {
			t.Errorf("%d objects read", reads)
		}
		b.want(report.True, addonsv1.DriftDetectedReason, "")
		b.now = b.now.Add(driftmemory.Retry)
	}
	b.refuse = nil
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
}

// TestContestedObjectNamesManager has an object that another program changes back after each correction. HelmOp must
// stop the corrections for a while, and the message must name the field manager.
func TestContestedObjectNamesManager(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	for range 4 {
		b.edit("c0")
		b.pass()
		b.now = b.now.Add(time.Second)
	}
	b.want(report.True, addonsv1.DriftContestedReason,
		`Field manager "editor" reverts the corrections of ConfigMap apps/c0 again and again`)
	b.wantState(model.StateDrifted)
	if b.patches != 3 || b.p.release.Status.Drift.Objects[0].HeldUntil.IsZero() {
		t.Errorf("put right %d times, %+v", b.patches, b.p.release.Status.Drift)
	}
}

// TestStateStaysDriftedWithoutComparison checks that the state does not become InSync in a pass without comparisons.
func TestStateStaysDriftedWithoutComparison(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.p.policy.CorrectDrift = false
	b.edit("c0")
	for range 3 {
		b.pass()
		b.wantState(model.StateDrifted)
	}
	b.p.snapshot.Synced = false
	b.pass()
	b.wantState(model.StateDrifted)
	b.p.snapshot.Synced = true
	delete(b.values, "c0")
	b.now = b.now.Add(2 * time.Hour)
	b.pass()
	b.wantState(model.StateInSync)
}

// TestCorrectionClearsFingerprint checks that a restarted manager compares objects that were corrected after their last
// comparison.
func TestCorrectionClearsFingerprint(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.edit("c0")
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
	if got := b.p.release.Status.Drift.Fingerprint; got != "" || b.patches != 1 {
		t.Errorf("fingerprint %q, %d corrected", got, b.patches)
	}
	b.p.snapshot.Fingerprint = "g"
	b.pass()
	if got := b.p.release.Status.Drift.Fingerprint; got == "" || got != b.memory().Fingerprint(b.p.snapshot) {
		t.Errorf("fingerprint %q", got)
	}
}

// TestDriftOfUnwatchedObjects checks that the condition Drifted reports objects that cannot be watched, instead of an
// old result.
func TestDriftOfUnwatchedObjects(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("%w: widgets", objectwatch.ErrForbidden)
	broken := errors.New("widgets: the server answered 500")
	for name, test := range map[string]struct {
		err      error
		since    time.Duration
		reported bool
	}{
		"forbidden":              {denied, 0, true},
		"failing for long":       {broken, objectwatch.StuckAfter, true},
		"failing since just now": {broken, objectwatch.StuckAfter - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDriftBench(t, 2, 0)
			b.p.policy.CorrectDrift = false
			b.pass()
			lose := func(lost bool) {
				b.p.snapshot.Synced, b.p.snapshot.Err, b.p.snapshot.ErrSince = !lost, nil, time.Time{}
				if lost {
					b.p.snapshot.Err, b.p.snapshot.ErrSince = test.err, b.now.Add(-test.since)
				}
				b.pass()
			}
			lose(true)
			if test.reported {
				b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, "widgets")
			} else {
				b.want(report.False, addonsv1.NoDriftReason, "")
			}
			b.edit("c0")
			lose(false)
			b.want(report.True, addonsv1.DriftDetectedReason, "c0")
			lose(true)
			if test.reported {
				b.want(report.True, addonsv1.DriftCheckFailedReason, "1 object differed at the last comparison")
			} else {
				b.want(report.True, addonsv1.DriftDetectedReason, "c0")
			}
			b.wantState(model.StateDrifted)
		})
	}
}

// TestDriftWhileWatchFails checks a watch that fails for a long time after the objects were known. The condition
// Drifted must not stay False, and the comparisons of all objects must continue.
func TestDriftWhileWatchFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("watching configmaps: the server answered 500")
	b := newDriftBench(t, 2, 0)
	b.p.policy.CorrectDrift = false
	failSince := func(age time.Duration) { b.failWatch(broken, b.now.Add(-age)) }
	nextCheck := func() {
		b.now = b.now.Add(driftmemory.Interval(b.p.release))
		if reads := b.pass(); reads != 2 {
			t.Errorf("the comparison of all objects reads %d objects", reads)
		}
	}
	b.pass()
	failSince(objectwatch.StuckAfter - 1)
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
	failSince(objectwatch.StuckAfter)
	for range 2 {
		b.pass()
		b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, broken.Error())
	}
	b.wantState(model.StateInSync)
	nextCheck()
	b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, broken.Error())
	b.values["c0"] = "changed" // The watch does not show it.
	nextCheck()
	b.want(report.True, addonsv1.DriftDetectedReason, "c0 differs")
	b.want(report.True, addonsv1.DriftDetectedReason, broken.Error())
	b.wantState(model.StateDrifted)
	delete(b.values, "c0")
	nextCheck()
	b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, broken.Error())
	b.failWatch(nil, time.Time{})
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
	b.p.snapshot.Err, b.p.snapshot.ErrSince = errors.New("watching the records of Helm"), b.now.Add(-time.Hour)
	b.pass()
	b.want(report.False, addonsv1.NoDriftReason, "")
}

// failWatch makes the watch of all objects fail since a time. Without an error, it works again.
func (b *driftBench) failWatch(err error, since time.Time) {
	var failed *objectwatch.WatchError
	if b.p.snapshot.Err, b.p.snapshot.ErrSince = err, since; err != nil {
		failed = &objectwatch.WatchError{Err: err, Since: since}
	}
	for ref, state := range b.p.snapshot.Objects {
		state.WatchError = failed
		b.p.snapshot.Objects[ref] = state
	}
}

// TestCorrectionIsGuarded checks that a correction corrects nothing while another action has the lock of the release,
// or after its records changed. The next pass is due soon, and the correction does not count as failed.
func TestCorrectionIsGuarded(t *testing.T) {
	t.Parallel()
	stale := helmerr.New(helmerr.ErrStale, "the records changed")
	for name, test := range map[string]struct {
		locked, changed error
		due             time.Duration
	}{
		"locked":               {locked: stale, due: 2 * time.Second},
		"records changed":      {changed: stale, due: 2 * time.Second},
		"records not readable": {changed: errors.New("no route to host"), due: driftmemory.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDriftBench(t, 3, 0)
			b.engine.locked, b.engine.changed = test.locked, test.changed
			b.edit("c0")
			b.pass()
			if b.patches != 0 || b.p.requeueAfter != test.due || b.engine.locks != 0 {
				t.Errorf("%d corrected, due in %s, %d locks", b.patches, b.p.requeueAfter, b.engine.locks)
			}
			b.want(report.True, addonsv1.DriftDetectedReason, "c0 differs")
			b.engine.locked, b.engine.changed = nil, nil
			b.now = b.now.Add(test.due)
			b.edit("c0")
			if b.pass(); b.patches != 1 || b.engine.locks != 0 {
				t.Errorf("%d corrected afterwards, %d locks", b.patches, b.engine.locks)
			}
		})
	}
}

// TestCorrectionReadsRecordsOncePerBatch checks that patches in quick succession share one read of the records, and
// that a slow correction reads them again. Each creation follows a read of its own.
func TestCorrectionReadsRecordsOncePerBatch(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 5, 0)
	edit := func() {
		for i := range 5 {
			b.edit(fmt.Sprintf("c%d", i))
		}
	}
	edit()
	if b.pass(); b.patches != 5 || b.engine.confirmed != 1 {
		t.Errorf("%d corrected with %d reads of the records", b.patches, b.engine.confirmed)
	}
	b.now = b.now.Add(time.Hour)
	b.engine.confirmed, b.patches = 0, 0
	b.engine.during = func() { b.now = b.now.Add(2 * time.Second) }
	edit()
	if b.pass(); b.patches != 5 || b.engine.confirmed != 5 {
		t.Errorf("%d corrected with %d reads of the records", b.patches, b.engine.confirmed)
	}
	b.now = b.now.Add(time.Hour)
	b.engine.confirmed, b.patches, b.engine.during = 0, 0, nil
	edit()
	b.missing = "c2"
	b.vanish(b.missing)
	if b.pass(); b.patches != 4 || b.posts != 1 || b.engine.confirmed != 2 {
		t.Errorf("%d corrected and %d created with %d reads of the records", b.patches, b.posts, b.engine.confirmed)
	}
}
