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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/drift"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// manifestEngine knows what a release installed, and where.
type manifestEngine struct {
	Engine
	objects []*unstructured.Unstructured
	err     error
	access  *helmclient.Access
	// asked counts the manifests that were asked for.
	asked int
}

func (e *manifestEngine) Manifest(context.Context, helmclient.Target, string, string, int) ([]*unstructured.Unstructured, error) {
	e.asked++
	return e.objects, e.err
}

func (e *manifestEngine) Access(helmclient.Target) (*helmclient.Access, error) { return e.access, nil }

// driftBench is a release whose revision 2 is deployed, and a cluster that serves its ConfigMaps.
type driftBench struct {
	*testing.T
	r        *releaseReconciler
	p        *releasePass
	engine   *manifestEngine
	recorder *events.FakeRecorder
	now      time.Time
	refs     []inventory.Ref

	mu sync.Mutex
	// values are what the ConfigMaps hold that do not hold "1".
	values map[string]string
	// missing is the ConfigMap that does not exist.
	missing string
	// gets, patches and posts count requests; refuse answers the patches that are no dry runs.
	gets, patches, posts int
	refuse               *apierrors.StatusError
}

func newDriftBench(t *testing.T, configMaps, unserved int) *driftBench {
	t.Helper()
	b := &driftBench{T: t, now: time.Unix(1_800_000_000, 0), values: map[string]string{}, recorder: events.NewFakeRecorder(1000)}
	server := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(server.Close)
	mapper := apimeta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, apimeta.RESTScopeNamespace)
	b.engine = &manifestEngine{access: &helmclient.Access{Config: &rest.Config{Host: server.URL, QPS: -1}, Mapper: mapper}}
	b.r = &releaseReconciler{
		engine: b.engine, drifts: newDriftMemories(), slots: newActionSlots(8, 0), recorder: b.recorder,
		now: func() time.Time { return b.now },
	}
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one", Generation: 1, UID: "u"}}
	release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
	desired := helmclient.Desired{Name: "web", Namespace: "apps", Owner: "fleet.web", UID: "u", ArtifactDigest: "a", ValuesDigest: "v", OptionsDigest: "o"}
	b.p = &releasePass{
		releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}}, desired: desired,
		policy: helmclient.Policy{CorrectDrift: true}, target: helmclient.Target{Key: "fleet/one"},
	}
	b.p.observation = helmclient.Observation{Records: []helmclient.Record{{
		Revision: 2, Status: "deployed", Owner: desired.Owner, UID: desired.UID, LabelledRevision: 2, ChangedAt: b.now.Add(-time.Hour),
		ArtifactDigest: desired.ArtifactDigest, ValuesDigest: desired.ValuesDigest, OptionsDigest: desired.OptionsDigest,
	}}}
	b.p.snapshot = &objectwatch.Snapshot{Synced: true, Fingerprint: "f", Objects: map[inventory.Ref]objectwatch.State{}}
	for i := range configMaps {
		b.add(inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: fmt.Sprintf("c%d", i)}, true)
	}
	for i := range unserved {
		b.add(inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: "apps", Name: fmt.Sprintf("w%d", i)}, false)
	}
	release.Status.Inventory = inventoryOf(&release.Spec, b.refs, 2)
	return b
}

func (b *driftBench) add(ref inventory.Ref, exists bool) {
	object := objectOf(ref)
	object.Object["data"] = map[string]any{"key": "1"}
	b.engine.objects = append(b.engine.objects, object)
	b.refs = append(b.refs, ref)
	b.p.snapshot.Objects[ref] = objectwatch.State{Exists: exists, Fingerprint: 7}
}

func (b *driftBench) serve(w http.ResponseWriter, req *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	value := b.values[name]
	switch {
	case req.Method == http.MethodPost:
		b.posts++
		b.missing = ""
	case req.Method == http.MethodGet && name == b.missing:
		b.gets++
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name).ErrStatus)
		return
	case req.Method == http.MethodGet:
		b.gets++
	case req.URL.Query().Get("dryRun") != "":
		value = "1"
	case b.refuse != nil:
		status := b.refuse.ErrStatus
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
		return
	default:
		b.patches++
		delete(b.values, name)
		value = "1"
	}
	if value == "" {
		value = "1"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": value},
		"metadata": map[string]any{
			"name": name, "namespace": "apps", "uid": "x", "resourceVersion": "1",
			"labels":      map[string]any{"app.kubernetes.io/managed-by": "Helm"},
			"annotations": map[string]any{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "apps"},
		},
	})
}

// edit is what somebody does to a ConfigMap.
func (b *driftBench) edit(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[name] = "changed"
	for ref, state := range b.p.snapshot.Objects {
		if ref.Name == name {
			state.Fingerprint++
			b.p.snapshot.Objects[ref] = state
		}
	}
}

// vanish has the watch tell that a ConfigMap is gone.
func (b *driftBench) vanish(name string) {
	for ref := range b.p.snapshot.Objects {
		if ref.Name == name {
			b.p.snapshot.Objects[ref] = objectwatch.State{}
		}
	}
}

// pass is as the engine goes over a release that is in sync, and returns the number of objects that it read.
func (b *driftBench) pass() int {
	b.Helper()
	b.mu.Lock()
	b.gets = 0
	b.mu.Unlock()
	b.p.drifted, b.p.differences, b.p.requeueAfter = false, nil, 0
	b.r.decide(b.p)
	b.r.assessDrift(b.Context(), b.p)
	if decision := b.r.decide(b.p); decision.Action == helmclient.ActionCorrectDrift {
		b.r.correctDrift(b.Context(), b.p, decision)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gets
}

func (b *driftBench) want(status metav1.ConditionStatus, reason, message string) {
	b.Helper()
	got := conditions.Get(b.p.release, addonsv1.DriftedCondition)
	if got == nil || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) {
		b.Fatalf("Drifted is %v, want %s, %s with %q", got, status, reason, message)
	}
}

// wantState holds that status.state says the same as the condition.
func (b *driftBench) wantState(state helmclient.State) {
	b.Helper()
	if got := b.p.release.Status.State; got != string(state) {
		b.Fatalf("state is %s, want %s", got, state)
	}
}

func (b *driftBench) memory() *driftMemory {
	return b.r.drifts.of(client.ObjectKeyFromObject(b.p.release))
}

// TestUncomparableObjectsDoNotHoldUpTheOthers holds that whatever number of objects cannot be compared, the others are compared
// once, what differs is told and put right, and nobody asks all the time.
func TestUncomparableObjectsDoNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	for _, unserved := range []int{0, 1, 11} {
		t.Run(fmt.Sprint(unserved), func(t *testing.T) {
			t.Parallel()
			b := newDriftBench(t, 50, unserved)
			status, reason, message := metav1False, addonsv1.NoDriftReason, ""
			if unserved > 0 {
				status, reason, message = metav1Unknown, addonsv1.DriftCheckFailedReason, "does not know the kind"
			}
			b.edit("c0")
			if reads := b.pass(); reads != 50 || b.patches != 1 {
				t.Fatalf("%d objects read, %d put right", reads, b.patches)
			}
			b.want(status, reason, message)
			if !b.p.release.Status.Drift.LastCheckedAt.Time.Equal(b.now) {
				t.Errorf("checked at %s", b.p.release.Status.Drift.LastCheckedAt)
			}
			b.now = b.now.Add(time.Second)
			if reads := b.pass(); reads != 1 {
				t.Errorf("what was put right is looked at again, but %d objects were read", reads)
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
			b.want(metav1True, addonsv1.DriftDetectedReason, "c1 differs")
			b.want(metav1True, addonsv1.DriftDetectedReason, message)
		})
	}
}

// TestDriftOfManifestThatCannotBeRead holds that a release is not asked for at each event because its manifest cannot be read.
func TestDriftOfManifestThatCannotBeRead(t *testing.T) {
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
	b.want(metav1False, addonsv1.NoDriftReason, "")
}

// TestInvalidDriftRuleIsHeardOfAtOnce holds that a rule that is put right, or changed, counts from then on.
func TestInvalidDriftRuleIsHeardOfAtOnce(t *testing.T) {
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
	b.want(metav1True, addonsv1.DriftDetectedReason, "c0")
	ignore("/data")
	b.want(metav1False, addonsv1.NoDriftReason, "")
}

// TestComparisonTakesASlot holds that no more releases of a cluster are compared or corrected at a time than may be acted upon.
func TestComparisonTakesASlot(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	var taken []func()
	take := func() {
		for i := range defaultSlotsPerCluster {
			if done, ok := b.r.slots.acquire(slotClaim{release: requestFor(strconv.Itoa(i)), cluster: b.p.target.Key, helmOp: "other"}); ok {
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
	b.p.requeueAfter = 0
	b.r.correctDrift(t.Context(), b.p, helmclient.Decision{})
	if b.patches != 0 || b.p.requeueAfter != 0 {
		t.Errorf("%d put right, due in %s", b.patches, b.p.requeueAfter)
	}
	free()
	if b.pass(); b.patches != 1 {
		t.Errorf("%d put right", b.patches)
	}
	take()
	if len(taken) != defaultSlotsPerCluster {
		t.Errorf("%d slots are left", len(taken))
	}
}

// TestRefusedCorrectionIsNoFight holds that what cannot be put right is called by its cause, also while it is left alone, and
// that nobody is accused.
func TestRefusedCorrectionIsNoFight(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 3, 0)
	b.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "c0", errors.New("ValidatingAdmissionPolicy 'by policy' with binding 'all' denied request: no"))
	b.edit("c0")
	for range 20 {
		b.pass()
		b.want(metav1True, addonsv1.DriftCorrectionFailedReason, "by policy")
		b.wantState(helmclient.StateDrifted)
		if !b.p.release.Status.Drift.Objects[0].HeldUntil.IsZero() || b.p.requeueAfter > driftInterval(b.p.release) {
			t.Fatalf("status %+v, due in %s", b.p.release.Status.Drift, b.p.requeueAfter)
		}
		b.now = b.now.Add(40 * time.Second)
	}
	told := 0
	for range len(b.recorder.Events) {
		if strings.Contains(<-b.recorder.Events, addonsv1.DriftCorrectionFailedReason) {
			told++
		}
	}
	// At the release, and at its HelmOp.
	if told != 2 {
		t.Errorf("told %d times", told)
	}
	b.refuse = nil
	b.now = b.now.Add(time.Hour)
	b.pass()
	b.want(metav1False, addonsv1.NoDriftReason, "")
	b.wantState(helmclient.StateInSync)
}

// TestForeignObjectIsNoFight holds the same of an object that belongs to another release by now.
func TestForeignObjectIsNoFight(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	for range 5 {
		b.r.assessDrift(t.Context(), b.p)
		b.p.differences = []drift.Difference{{Ref: b.refs[0], Paths: []string{"/metadata"}, Owner: "apps/other"}}
		b.memory().standing[b.refs[0]] = b.p.differences[0]
		b.r.correctDrift(t.Context(), b.p, helmclient.Decision{})
		b.want(metav1True, addonsv1.DriftCorrectionFailedReason, "it belongs to release apps/other now")
		b.now = b.now.Add(driftRetry)
	}
}

// TestConflictIsNoFight holds that corrections which came too late, because the object changed meanwhile, are not held against
// anybody.
func TestConflictIsNoFight(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	b.refuse = apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "c0", errors.New("it changed"))
	b.edit("c0")
	for range 5 {
		if reads := b.pass(); reads != 1 {
			t.Errorf("%d objects read", reads)
		}
		b.want(metav1True, addonsv1.DriftDetectedReason, "")
		b.now = b.now.Add(driftRetry)
	}
	b.refuse = nil
	b.pass()
	b.want(metav1False, addonsv1.NoDriftReason, "")
}

// TestFightIsNamed holds that an object which is changed back after each correction is left alone, and who does it is told.
func TestFightIsNamed(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	for range 4 {
		b.edit("c0")
		b.pass()
		b.now = b.now.Add(time.Second)
	}
	b.want(metav1True, addonsv1.DriftContestedReason, "changes ConfigMap apps/c0 back again and again")
	b.wantState(helmclient.StateDrifted)
	if b.patches != 3 || b.p.release.Status.Drift.Objects[0].HeldUntil.IsZero() {
		t.Errorf("put right %d times, %+v", b.patches, b.p.release.Status.Drift)
	}
}

// TestStateSaysDriftedAsLongAsItIs holds that the state does not return to InSync while nothing is compared.
func TestStateSaysDriftedAsLongAsItIs(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.p.policy.CorrectDrift = false
	b.edit("c0")
	for range 3 {
		b.pass()
		b.wantState(helmclient.StateDrifted)
	}
	b.p.snapshot.Synced = false
	b.pass()
	b.wantState(helmclient.StateDrifted)
	b.p.snapshot.Synced = true
	delete(b.values, "c0")
	b.now = b.now.Add(2 * time.Hour)
	b.pass()
	b.wantState(helmclient.StateInSync)
}

// TestEndedDriftIntervalIsDueAtOnce holds that a check whose time came while something else was done is not forgotten.
func TestEndedDriftIntervalIsDueAtOnce(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 1, 0)
	b.pass()
	b.p.requeueAfter = 0
	b.now = b.now.Add(driftInterval(b.p.release))
	b.r.reportDrift(b.p, b.memory(), 0, nil)
	if b.p.requeueAfter <= 0 || b.p.requeueAfter > time.Second {
		t.Errorf("due in %s", b.p.requeueAfter)
	}
}

// TestCorrectionLeavesNoFingerprint holds that a restarted manager does not take for unchanged what was seen before a correction.
func TestCorrectionLeavesNoFingerprint(t *testing.T) {
	t.Parallel()
	b := newDriftBench(t, 2, 0)
	b.edit("c0")
	b.pass()
	b.want(metav1False, addonsv1.NoDriftReason, "")
	if got := b.p.release.Status.Drift.Fingerprint; got != "" || b.patches != 1 {
		t.Errorf("fingerprint %q, %d put right", got, b.patches)
	}
	b.p.snapshot.Fingerprint = "g"
	b.pass()
	if got := b.p.release.Status.Drift.Fingerprint; got != "g" {
		t.Errorf("fingerprint %q", got)
	}
}

// TestDriftOfObjectsThatCannotBeWatched holds that nobody is told for ever what was true before the objects went out of sight.
func TestDriftOfObjectsThatCannotBeWatched(t *testing.T) {
	t.Parallel()
	denied := fmt.Errorf("%w: widgets", objectwatch.ErrForbidden)
	broken := errors.New("widgets: the server answered 500")
	for name, test := range map[string]struct {
		err   error
		since time.Duration
		told  bool
	}{
		"denied":          {denied, 0, true},
		"broken":          {broken, objectwatch.StuckAfter, true},
		"broken just now": {broken, objectwatch.StuckAfter - 1, false},
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
			if test.told {
				b.want(metav1Unknown, addonsv1.DriftCheckFailedReason, "widgets")
			} else {
				b.want(metav1False, addonsv1.NoDriftReason, "")
			}
			b.edit("c0")
			lose(false)
			b.want(metav1True, addonsv1.DriftDetectedReason, "c0")
			lose(true)
			if test.told {
				b.want(metav1True, addonsv1.DriftCheckFailedReason, "1 objects differed when they were last compared")
			} else {
				b.want(metav1True, addonsv1.DriftDetectedReason, "c0")
			}
			b.wantState(helmclient.StateDrifted)
		})
	}
}
