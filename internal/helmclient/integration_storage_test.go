// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
)

// memoryStore is a store that holds payloads in memory, and fails on request.
type memoryStore struct {
	mu   sync.Mutex
	kept map[string][]byte
	// fail returns the error of a call: prepare, put, get or delete.
	fail func(call string) error
}

func newMemoryStore() *memoryStore { return &memoryStore{kept: map[string][]byte{}} }

func (m *memoryStore) call(name string) error {
	if m.fail == nil {
		return nil
	}
	return m.fail(name)
}

func (m *memoryStore) Prepare(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.call("prepare")
}

func (m *memoryStore) Put(_ context.Context, name payload.Name, data []byte) (payload.Place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("put"); err != nil {
		return payload.Place{}, err
	}
	m.kept[name.ID] = data
	return payload.Place{URL: "oci://store.test/records", Manifest: name.ID, Digest: name.ID, Size: int64(len(data))}, nil
}

func (m *memoryStore) Get(_ context.Context, place payload.Place) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("get"); err != nil {
		return nil, err
	}
	data, ok := m.kept[place.Digest]
	if !ok {
		return nil, payload.ErrMissing
	}
	return data, nil
}

func (m *memoryStore) Delete(_ context.Context, place payload.Place, _ payload.Name) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("delete"); err != nil {
		return err
	}
	delete(m.kept, place.Digest)
	return nil
}

func (m *memoryStore) failWith(err error, calls ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = func(call string) error {
		for _, failing := range calls {
			if call == failing {
				return err
			}
		}
		return nil
	}
}

func (m *memoryStore) sizes() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	sizes := map[string]int{}
	for id, data := range m.kept {
		sizes[id] = len(data)
	}
	return sizes
}

func (m *memoryStore) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.kept)
}

var errStoreDown = errors.New("push to oci://store.test/records: registry unreachable: connection refused")

// parts lists the Secrets with parts of payloads.
func (b *bench) parts() []corev1.Secret {
	b.t.Helper()
	list, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(),
		metav1.ListOptions{LabelSelector: records.LabelChunkOf})
	if err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

// recordSecrets lists Helm's own Secrets.
func (b *bench) recordSecrets() []corev1.Secret {
	b.t.Helper()
	list, err := b.kube.CoreV1().Secrets(b.namespace).List(b.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

// storages are the storages of records. Each sets up its storage and returns a function for the sizes of the payloads,
// in bytes.
func storages() map[string]func(*bench) (keeps func() map[string]int) {
	return map[string]func(*bench) func() map[string]int{
		"cluster": func(b *bench) func() map[string]int {
			return func() map[string]int {
				sizes := map[string]int{}
				for _, part := range b.parts() {
					for _, data := range part.Data {
						sizes[part.Labels[model.LabelPayload]] += len(data)
					}
				}
				return sizes
			}
		},
		"store": func(b *bench) func() map[string]int {
			store := newMemoryStore()
			b.target.Storage = model.Storage{Store: store, Outside: true}
			return store.sizes
		},
	}
}

// newProcess replaces only the client.
func (b *bench) newProcess(run *releaseRun) {
	stored := b.target.Storage
	b.reconnect(-1)
	b.target.Storage = stored
	run.client, run.target = b.client, b.target
}

// rollBack returns to revision 1 of a release, as after an aborted rollout.
func (b *bench) rollBack(run *releaseRun) {
	b.t.Helper()
	b.newProcess(run)
	run.desired.ArtifactDigest, run.desired.ValuesDigest, run.desired.Return = "a1", "v1", true
	run.chart, run.values = nil, nil
	run.mustSettle(b.t)
	b.wantRecords(run.desired, "3 deployed", "2 superseded", "1 superseded")
	run.desired.Return = false
}

// TestIntegrationFailingStoreBlocksActions checks that no action starts and nothing is deleted while a store fails.
// Running actions are recorded. Actions continue when the store works again.
func TestIntegrationFailingStoreBlocksActions(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	group := b.group("store")
	chrt := withWidgets(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), group)
	run := b.newRun(chrt, map[string]any{"cidr": "1"})
	run.options.Install.NamespaceLabels = map[string]string{"labelled": "yes"}
	for _, call := range []string{"prepare", "put"} {
		store.failWith(errStoreDown, call)
		_, err := run.actNow(t, model.ActionInstall)
		helmtest.WantError(t, err, helmerr.ErrRecordStorage, false, "nothing was changed", "registry unreachable")
		b.wantRecords(run.desired)
		b.wantNoConfigMap("first")
		if call == "prepare" && (b.get("/api/v1/namespaces/"+b.namespace) != nil || b.crdVersions(group) != nil) {
			t.Error("the namespace or the CRD is there")
		}
	}
	store.failWith(nil)
	run.mustSettle(t)
	installed := store.count()

	run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}))
	for _, call := range []string{"prepare", "put", "get"} {
		b.newProcess(run)
		store.failWith(errStoreDown, call)
		_, err := run.actNow(t, model.ActionUpgrade)
		helmtest.WantError(t, err, helmerr.ErrRecordStorage, false)
		b.wantConfigMap("first", "1")
		b.wantRecords(run.desired, "1 deployed")
	}
	_, err := manifestOf(t.Context(), b.client, b.target, b.namespace, "demo", 1)
	helmtest.WantError(t, err, helmerr.ErrRecordStorage, false, "the release is not changed")
	uninstall := decide.Uninstall(b.observe(run.desired), run.desired, model.Policy{}, time.Now())
	_, err = run.act(t.Context(), uninstall)
	helmtest.WantError(t, err, helmerr.ErrRecordStorage, false)
	b.wantConfigMap("first", "1")
	b.wantRecords(run.desired, "1 deployed")

	// If a store fails after the payload was put, the result is recorded nevertheless.
	store.failWith(nil)
	b.newProcess(run)
	put := false
	store.fail = func(call string) error {
		defer func() { put = put || call == "put" }()
		if put {
			return errStoreDown
		}
		return nil
	}
	run.mustSettle(t)
	b.wantNoConfigMap("first")
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
	store.failWith(nil)
	if store.count() != installed+1 {
		t.Errorf("%d payloads", store.count())
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if store.count() != 0 {
		t.Errorf("%d payloads are left", store.count())
	}
}

// TestIntegrationStoreWithoutDeletion checks that actions continue if a store does not delete payloads. The result
// reports the payloads that are left.
func TestIntegrationStoreWithoutDeletion(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.options.Upgrade.MaxHistory = new(2)
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	store.failWith(fmt.Errorf("%w: 405", payload.ErrKept), "delete")
	run.want("a3", helmtest.NewChart("3.0.0", helmtest.TwoConfigMaps()))
	result, err := run.actNow(t, model.ActionUpgrade)
	if err != nil || result.RecordsLeft != 1 || !strings.Contains(result.RecordsLeftReason, "405") {
		t.Errorf("%+v, %v", result, err)
	}
	b.wantRecords(run.desired, "3 deployed", "2 superseded")
	store.failWith(nil)
	run.want("a4", helmtest.NewChart("4.0.0", helmtest.TwoConfigMaps()))
	if result, err = run.actNow(t, model.ActionUpgrade); err != nil || result.RecordsLeft != 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if store.count() != 3 {
		t.Errorf("%d payloads: two that are needed and one that stayed", store.count())
	}
	// While the store rejects writes, the history loses no records.
	store.failWith(errStoreDown, "put")
	run.want("a5", helmtest.NewChart("5.0.0", helmtest.TwoConfigMaps()))
	result, err = run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, helmerr.ErrRecordStorage, false)
	if result.StorageChanged {
		t.Error("the storage changed")
	}
	b.wantRecords(run.desired, "4 deployed", "3 superseded")
}

// TestIntegrationFailingStoreKeepsFullHistory checks a full history in the cluster whose next record belongs in a
// store. While the store rejects this record, the history loses no record.
func TestIntegrationFailingStoreKeepsFullHistory(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.options.Upgrade.MaxHistory = new(2)
	run.mustSettle(t)
	run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
	run.mustSettle(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	b.newProcess(run)
	store.failWith(errStoreDown, "put")
	run.want("a3", helmtest.NewChart("3.0.0", helmtest.TwoConfigMaps()))
	_, err := run.actNow(t, model.ActionUpgrade)
	helmtest.WantError(t, err, helmerr.ErrRecordStorage, false)
	b.wantRecords(run.desired, "2 deployed", "1 superseded")
	store.failWith(nil)
	run.mustSettle(t)
	b.wantRecords(run.desired, "3 deployed", "2 superseded")
}

// TestIntegrationPayloadDamaged checks that nothing is deleted because a payload is missing or was changed.
func TestIntegrationPayloadDamaged(t *testing.T) {
	damage := map[string]func(*bench, *memoryStore){
		"missing": func(_ *bench, m *memoryStore) { clear(m.kept) },
		"changed": func(_ *bench, m *memoryStore) {
			for _, data := range m.kept {
				data[len(data)/2] ^= 1
			}
		},
		"without its key": func(b *bench, _ *memoryStore) {
			b.editRecord(func(rls *release.Release) {
				file := rls.Chart.Files[0]
				file.Data = []byte(strings.Replace(string(file.Data), `"key":"`, `"other":"`, 1))
			})
		},
		"without its file": func(b *bench, _ *memoryStore) {
			b.editRecord(func(rls *release.Release) { rls.Chart.Files = nil })
		},
	}
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			store := newMemoryStore()
			b.target.Storage = model.Storage{Store: store, Outside: true}
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			change(b, store)
			b.newProcess(run)
			b.wantNothingDestroyed(run)
		})
	}
	t.Run("a part of it missing", func(t *testing.T) {
		b := newBench(t)
		b.target.Storage.SplitAll = true
		run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
		run.mustSettle(t)
		for _, part := range b.parts() {
			if err := b.kube.CoreV1().Secrets(b.namespace).Delete(t.Context(), part.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b.newProcess(run)
		b.wantNothingDestroyed(run)
	})
}

// wantNothingDestroyed checks that an upgrade and an uninstallation change nothing.
func (b *bench) wantNothingDestroyed(run *releaseRun) {
	b.t.Helper()
	uninstall := decide.Uninstall(b.observe(run.desired), run.desired, model.Policy{}, time.Now())
	_, err := run.act(b.t.Context(), uninstall)
	helmtest.WantError(b.t, err, helmerr.ErrRecordDamaged, false)
	run.want("a2", helmtest.NewChart("2.0.0", nil))
	_, err = run.actNow(b.t, model.ActionUpgrade)
	helmtest.WantError(b.t, err, helmerr.ErrRecordDamaged, false)
	b.wantConfigMap("first", "1")
	b.wantRecords(run.desired, "1 deployed")
}

// editRecord changes the first record, as a person could.
func (b *bench) editRecord(change func(*release.Release)) {
	b.t.Helper()
	secrets, key := driver.NewSecrets(b.kube.CoreV1().Secrets(b.namespace)), b.recordSecrets()[0].Name
	rls, err := secrets.Get(key)
	if err != nil {
		b.t.Fatal(err)
	}
	change(rls)
	if err := secrets.Update(key, rls); err != nil {
		b.t.Fatal(err)
	}
}

// TestIntegrationStorageSwitch checks that records stay readable in their storage after the storage of new records
// changes.
func TestIntegrationStorageSwitch(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	steps := []model.Storage{{}, {Store: store, Outside: true}, {Store: store, SplitAll: true}, {Store: store}}
	for i, next := range steps {
		b.target.Storage = next
		b.newProcess(run)
		run.want(fmt.Sprintf("a%d", i+1), helmtest.NewChart(fmt.Sprintf("%d.0.0", i+1), helmtest.TwoConfigMaps()))
		run.mustSettle(t)
	}
	b.wantRecords(run.desired, "4 deployed", "3 superseded", "2 superseded", "1 superseded")
	if store.count() != 1 || len(b.parts()) != 1 {
		t.Errorf("%d payloads in the store, %d in the cluster", store.count(), len(b.parts()))
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wantNoConfigMap("first")
	if store.count() != 0 || len(b.parts()) != 0 {
		t.Errorf("%d payloads in the store, %d in the cluster are left", store.count(), len(b.parts()))
	}
}

// TestIntegrationCutSplit interrupts actions that write split records, at each request.
func TestIntegrationCutSplit(t *testing.T) {
	cases := cutCases()
	for name, stored := range map[string]func() model.Storage{
		"cluster": func() model.Storage { return model.Storage{SplitAll: true} },
		"store":   func() model.Storage { return model.Storage{Store: newMemoryStore(), Outside: true} },
	} {
		for _, action := range []string{"install", "upgrade", "uninstall"} {
			t.Run(name+"/"+action, func(t *testing.T) {
				b := newBench(t)
				b.target.Storage = stored()
				c := cases[action]
				c.modes = []string{"response lost, cluster unreachable", "request lost, cluster unreachable"}
				c.also = (*cutRun).onlyReferred
				b.cutEverywhere(t, c)
			})
		}
	}
}

// onlyReferred checks that each record has its payload. After the next actions, the cluster has no part without a
// record.
func (r *cutRun) onlyReferred() error {
	referred := map[string]bool{}
	conn, err := r.client.connections.Get(r.target)
	if err != nil {
		return err
	}
	held := conn.Records(r.ctx, r.name, r.storage, nil)
	list, err := held.ListMetadata(records.Selector("demo"))
	if err != nil {
		return err
	}
	for i := range list {
		if _, err := held.Get(list[i].Name); err != nil {
			return err
		}
		referred[list[i].Labels[model.LabelPayload]] = true
	}
	// Parts that are younger than ChunkGrace are deleted later.
	if _, err := held.Sweep("demo", time.Now().Add(2*records.ChunkGrace)); err != nil {
		return err
	}
	parts, err := held.ListMetadata(records.LabelChunkOf)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for i := range parts {
		found[parts[i].Labels[model.LabelPayload]] = true
	}
	if r.storage.Store == nil && !maps.Equal(found, referred) {
		return fmt.Errorf("payloads %v, records with %v", found, referred)
	}
	return nil
}

// TestIntegrationPayloadMemory checks that actions with large records wait for memory, within their timeouts, and
// release it.
func TestIntegrationPayloadMemory(t *testing.T) {
	b := newBench(t)
	run := b.newRun(bigChart("1.0.0", 2<<20, 0), map[string]any{"cidr": "1"})
	memory := b.client.connections.Shared.Actions
	full := memory.Lease(actionmemory.Owner{})
	if err := full.Records(memory.Total()); err != nil {
		t.Fatal("memory is held before the test", err)
	}
	// On a busy machine, the chart may not be rendered within a short timeout. The wait for memory comes after that.
	var err error
	for _, seconds := range []time.Duration{2, 10, 50} {
		run.options.Install.Timeout = seconds * time.Second
		if _, err = run.actNow(t, model.ActionInstall); !errors.Is(err, helmerr.ErrRenderLimit) {
			break
		}
	}
	helmtest.WantError(t, err, helmerr.ErrBusy, false, "other large releases")
	b.wantRecords(run.desired)
	full.Release()
	run.options.Install.Timeout = 0
	run.mustSettle(t)
	b.newProcess(run)
	held := int64(0)
	reading := b.client.connections.Shared.Actions
	err = b.client.Manifest(t.Context(), b.target, b.namespace, "demo", 1, false,
		func([]*unstructured.Unstructured) { held = reading.Used() })
	if err != nil || held == 0 {
		t.Fatalf("%d bytes are reserved for the objects: %v", held, err)
	}
	for name, memory := range map[string]*actionmemory.Budget{"acting": memory,
		"reading": reading} {
		if memory.Used() != 0 {
			t.Errorf("not all was given back after %s", name)
		}
	}
}

// TestIntegrationSmallMemory checks that a release that needs more memory than the manager has is neither installed nor
// upgraded, and nothing is changed, and that it can always be uninstalled, with its hooks.
func TestIntegrationSmallMemory(t *testing.T) {
	b := newBench(t)
	// The manifests have 2 MB, and their parses need 14 MB.
	const large = "{{ range until 4 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large-{{ . }}\ndata:\n" +
		"  a: {{ repeat 500000 \"a\" }}\n{{ end }}"
	const hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations:\n" +
		"    helm.sh/hook: pre-delete,post-delete\n"
	templates := map[string]string{"large.yaml": large, "hook.yaml": hook}
	run := b.newRun(helmtest.NewChart("1.0.0", templates), nil)
	shared := &b.client.connections.Shared
	within := func(size int64, act func()) {
		t.Helper()
		shared.Actions = actionmemory.NewBudget(size)
		act()
		if used := shared.Actions.Used(); used != 0 {
			t.Errorf("%d bytes are not given back", used)
		}
	}
	refused := func(action model.Action) func() {
		return func() {
			_, err := run.actNow(t, action)
			helmtest.WantError(t, err, helmerr.ErrTooLarge, false, "raise the memory limit")
		}
	}
	within(12<<20, refused(model.ActionInstall))
	b.wantRecords(run.desired)
	within(64<<20, func() { run.mustSettle(t) })
	run.chart, run.desired.ArtifactDigest = helmtest.NewChart("2.0.0", templates), "a2"
	within(16<<20, refused(model.ActionUpgrade))
	within(1<<20, func() {
		if err := run.settleUninstall(t.Context()); err != nil {
			t.Error(err)
		}
	})
	b.wantRecords(run.desired)
}
