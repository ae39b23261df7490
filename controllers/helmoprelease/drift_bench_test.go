// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/async"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/driftmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/releaseinventory"
)

// manifestEngine returns the manifest of a release and the access to its cluster.
type manifestEngine struct {
	Engine
	objects []*unstructured.Unstructured
	err     error
	access  *model.Access
	// asked counts the calls of Manifest. isUsed is true while the objects are used.
	asked  int
	isUsed atomic.Bool
	// locked and changed are the errors of Lock and Confirm; confirmed counts the calls of Confirm. locks is the number
	// of held locks.
	locked, changed  error
	confirmed, locks int
	// during is called by Confirm; nil if nothing happens meanwhile.
	during func()
}

func (e *manifestEngine) Manifest(_ context.Context, _ model.Target, _, _ string, _ int, _ bool,
	use func([]*unstructured.Unstructured),
) error {
	e.asked++
	if e.err == nil {
		e.isUsed.Store(true)
		defer e.isUsed.Store(false)
		use(e.objects)
	}
	return e.err
}

func (e *manifestEngine) Access(model.Target) (*model.Access, error) { return e.access, nil }

func (e *manifestEngine) Lock(model.Target, model.Desired) (func(), error) {
	if e.locked != nil {
		return nil, e.locked
	}
	e.locks++
	return func() { e.locks-- }, nil
}

func (e *manifestEngine) Confirm(_ context.Context, _ model.Target, _ model.Desired, observed model.Record) error {
	e.confirmed++
	if observed.Revision != 2 || e.locks != 1 {
		return fmt.Errorf("confirmed Helm revision %d with %d locks", observed.Revision, e.locks)
	}
	if e.during != nil {
		e.during()
	}
	return e.changed
}

// driftBench has a release whose revision 2 is deployed, and a cluster that serves its ConfigMaps.
type driftBench struct {
	*testing.T
	r        *Reconciler
	p        *releasePass
	engine   *manifestEngine
	recorder *events.FakeRecorder
	now      time.Time
	refs     []inventory.Ref

	mu sync.Mutex
	// values has the contents of the ConfigMaps whose content is not "1".
	values map[string]string
	// missing is the ConfigMap that does not exist.
	missing string
	// gets, patches and posts are the numbers of requests. refuse answers the patches that are not dry runs.
	gets, patches, posts int
	refuse               *apierrors.StatusError
}

func newDriftBench(t *testing.T, configMaps, unserved int) *driftBench {
	t.Helper()
	b := &driftBench{T: t, now: time.Unix(1_800_000_000, 0), values: map[string]string{},
		recorder: events.NewFakeRecorder(1000)}
	server := httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(server.Close)
	mapper := apimeta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, apimeta.RESTScopeNamespace)
	b.engine = &manifestEngine{access: &model.Access{Config: &rest.Config{Host: server.URL, QPS: -1}, Mapper: mapper}}
	b.r = &Reconciler{
		engine: b.engine, slots: newActionSlots(8, 0, &async.Waker{}), recorder: b.recorder,
		now: func() time.Time { return b.now },
	}
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one", Generation: 1,
		UID: "u"}}
	release.Spec.DriftDetection = &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect}
	b.r.client = controllertest.StoreOf(t, release)
	if err := b.r.client.Get(t.Context(), client.ObjectKeyFromObject(release), release); err != nil {
		t.Fatal(err)
	}
	desired := model.Desired{Name: "web", Namespace: "apps", Owner: "fleet.web", UID: "u", ArtifactDigest: "a",
		ValuesDigest: "v", OptionsDigest: "o"}
	b.p = &releasePass{
		releaseScope: &releaseScope{release: release, helmOp: &addonsv1.HelmOp{}}, desired: desired,
		policy: model.Policy{CorrectDrift: true}, target: model.Target{Key: "fleet/one"},
	}
	b.p.observation = model.Observation{Records: []model.Record{{
		Revision: 2, Status: "deployed", Owner: desired.Owner, UID: desired.UID, LabelledRevision: 2,
		ChangedAt:      b.now.Add(-time.Hour),
		ArtifactDigest: desired.ArtifactDigest, ValuesDigest: desired.ValuesDigest, OptionsDigest: desired.OptionsDigest,
	}}}
	b.p.snapshot = &objectwatch.Snapshot{Synced: true, Fingerprint: "f", Objects: map[inventory.Ref]objectwatch.State{}}
	for i := range configMaps {
		b.add(inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: fmt.Sprintf("c%d", i)}, true)
	}
	for i := range unserved {
		b.add(inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: "apps",
			Name: fmt.Sprintf("w%d", i)}, false)
	}
	release.Status.Inventory = releaseinventory.Of(&release.Spec, b.refs, 2)
	return b
}

func (b *driftBench) add(ref inventory.Ref, exists bool) {
	object := controllertest.ObjectOf(ref)
	object.Object["data"] = map[string]any{"key": "1"}
	b.engine.objects = append(b.engine.objects, object)
	b.refs = append(b.refs, ref)
	b.p.snapshot.Objects[ref] = objectwatch.State{Exists: exists, Fingerprint: 7}
}

func (b *driftBench) serve(w http.ResponseWriter, req *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	// A correction reads an object only after a conflict.
	if req.Method == http.MethodGet && b.refuse == nil && !b.engine.isUsed.Load() {
		b.Errorf("%s is compared after the memory for the manifest was released", req.URL.Path)
	}
	name := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	value := b.values[name]
	switch {
	case req.Method == http.MethodPost:
		b.posts++
		b.missing = ""
	case req.Method == http.MethodGet && name == b.missing:
		b.gets++
		writeStatus(w, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name))
		return
	case req.Method == http.MethodGet:
		b.gets++
	case req.URL.Query().Get("dryRun") != "":
		value = "1"
	case b.refuse != nil:
		writeStatus(w, b.refuse)
		return
	default:
		b.patches++
		delete(b.values, name)
		value = "1"
	}
	if value == "" {
		value = "1"
	}
	manager := "helmop"
	if value != "1" {
		manager = "editor"
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"key": value},
		"metadata": map[string]any{
			"name": name, "namespace": "apps", "uid": "x", "resourceVersion": "1",
			"managedFields": []any{map[string]any{
				"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
				"fieldsV1": map[string]any{"f:data": map[string]any{"f:key": map[string]any{}}},
			}},
			"labels":      map[string]any{inventory.ManagedByLabel: inventory.ManagedByHelm},
			"annotations": map[string]any{inventory.HelmReleaseName: "web", inventory.HelmReleaseNamespace: "apps"},
		},
	})
}

// writeStatus writes an error as an API server does.
func writeStatus(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// edit changes a ConfigMap like another program would.
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

// vanish makes the watch report that a ConfigMap does not exist.
func (b *driftBench) vanish(name string) {
	for ref := range b.p.snapshot.Objects {
		if ref.Name == name {
			b.p.snapshot.Objects[ref] = objectwatch.State{}
		}
	}
}

// pass runs the drift steps of a pass over a release that is in sync. It returns the number of objects that it read.
func (b *driftBench) pass() int {
	b.Helper()
	b.mu.Lock()
	b.gets = 0
	b.mu.Unlock()
	b.p.drifted, b.p.requeueAfter = false, 0
	b.r.decide(b.p)
	b.r.assessDrift(b.Context(), b.p)
	b.r.decide(b.p)
	if b.p.decision.Action == model.ActionCorrectDrift {
		b.r.correctDrift(b.Context(), b.p)
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

// wantState checks status.state.
func (b *driftBench) wantState(state model.State) {
	b.Helper()
	if got := b.p.release.Status.State; got != string(state) {
		b.Fatalf("state is %s, want %s", got, state)
	}
}

func (b *driftBench) memory() *driftmemory.Memory {
	return &b.r.memoryOf(b.p.release).Drift
}
