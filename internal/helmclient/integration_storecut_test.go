// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/payload"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/cutproxy"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/sample"
)

// storeCut defines at which call a store of payloads fails, and how.
type storeCut struct {
	// at is the number of the call that fails, from 1. Zero means that no call fails.
	at int
	// answer means that the call is carried out and its response is lost. If it is false, the call itself is lost.
	answer bool
	// once means that the store works after the failure. kills means that the process ends: none of its later requests
	// are carried out.
	once, kills bool
}

// storeCuts are the ways in which a store fails.
var storeCuts = map[string]storeCut{
	"call lost once":                   {once: true},
	"response lost once":               {once: true, answer: true},
	"call lost, store unreachable":     {},
	"response lost, store unreachable": {answer: true},
	"killed before the call":           {kills: true},
	"killed after the call":            {kills: true, answer: true},
}

// cuttingStore is a store that fails at one of its calls.
type cuttingStore struct {
	*memoryStore
	cut  storeCut
	kill func() error

	counting sync.Mutex
	calls    []string
}

// pass counts a call. It returns whether the call is carried out, and the error for the caller.
func (c *cuttingStore) pass(call string) (carriedOut bool, err error) {
	c.counting.Lock()
	defer c.counting.Unlock()
	c.calls = append(c.calls, call)
	n := len(c.calls)
	switch {
	case c.cut.at == 0, n < c.cut.at, n > c.cut.at && c.cut.once:
		return true, nil
	case n == c.cut.at && c.cut.kills:
		return c.cut.answer, errors.Join(errStoreDown, c.kill())
	default:
		return n == c.cut.at && c.cut.answer, errStoreDown
	}
}

func (c *cuttingStore) Prepare(ctx context.Context) error {
	carriedOut, err := c.pass("prepare")
	if carriedOut {
		err = errors.Join(c.memoryStore.Prepare(ctx), err)
	}
	return err
}

func (c *cuttingStore) Put(ctx context.Context, name payload.Name, data []byte) (place payload.Place, err error) {
	carriedOut, err := c.pass("put")
	if carriedOut {
		var putErr error
		place, putErr = c.memoryStore.Put(ctx, name, data)
		err = errors.Join(putErr, err)
	}
	return place, err
}

func (c *cuttingStore) Get(ctx context.Context, place payload.Place) (data []byte, err error) {
	carriedOut, err := c.pass("get")
	if carriedOut && err == nil {
		return c.memoryStore.Get(ctx, place)
	}
	return nil, err
}

func (c *cuttingStore) Delete(ctx context.Context, place payload.Place, name payload.Name) error {
	carriedOut, err := c.pass("delete")
	if carriedOut {
		err = errors.Join(c.memoryStore.Delete(ctx, place, name), err)
	}
	return err
}

// storeCutCases are actions with payloads in a store. Actions that delete payloads need several revisions.
func storeCutCases() map[string]cutCase {
	cases := cutCases()
	uninstall := cases["uninstall"]
	uninstall.prepare = func(r *cutRun) error {
		if err := r.settle(r.ctx); err != nil {
			return err
		}
		r.wantSecondVersion()
		return r.settle(r.ctx)
	}
	uninstall.objects = map[string]string{"ConfigMap/hook": "ran"}
	// The history limit keeps two of three revisions.
	prune := cases["upgrade"]
	prune.prepare = func(r *cutRun) error {
		r.options.Upgrade.MaxHistory = new(2)
		if err := r.settle(r.ctx); err != nil {
			return err
		}
		r.desired.ValuesDigest, r.values = "v1b", map[string]any{"cidr": "1"}
		if err := r.settle(r.ctx); err != nil {
			return err
		}
		r.wantSecondVersion()
		return nil
	}
	prune.revisions, prune.anyHistory = nil, true
	return map[string]cutCase{
		"install": cases["install"], "upgrade": cases["upgrade"], "rollback": cases["rollback"], "return": cases["return"],
		"uninstall": uninstall, "upgrade that prunes": prune,
	}
}

// TestIntegrationStoreCut interrupts a store of payloads at each of its calls (see package sample), in every way. The
// next process completes the action. Each record then has its payload, and the store has no payload that could have
// been deleted.
func TestIntegrationStoreCut(t *testing.T) {
	for name, c := range storeCutCases() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			prefix := strings.TrimPrefix(namespaceOf(t), "testintegration")
			calls, err := b.storeCutOnce(t.Context(), c, prefix+"-0", storeCut{})
			if err != nil || len(calls) == 0 {
				t.Fatalf("without a cut: %q, %v", calls, err)
			}
			t.Logf("%s: %q", name, calls)
			var group sync.WaitGroup
			slots := make(chan struct{}, cutWorkers)
			type job struct {
				way string
				at  int
			}
			var all []job
			for at := range calls {
				for _, way := range slices.Sorted(maps.Keys(storeCuts)) {
					all = append(all, job{way, at + 1})
				}
			}
			for number, j := range sample.Of(t, all) {
				cut := storeCuts[j.way]
				cut.at = j.at
				release := fmt.Sprintf("%s-%d", prefix, number+1)
				slots <- struct{}{}
				group.Go(func() {
					defer func() { <-slots }()
					if _, err := b.storeCutOnce(t.Context(), c, release, cut); err != nil {
						t.Errorf("%s at call %d of %q: %v", j.way, cut.at, calls, err)
					}
				})
			}
			group.Wait()
		})
	}
}

// storeCutOnce runs a case with one cut, and then the steps of the next process. It returns the number of calls.
func (b *bench) storeCutOnce(ctx context.Context, c cutCase, name string, cut storeCut) (calls []string, err error) {
	r := newCutRun(ctx, b, name)
	memory := newMemoryStore()
	r.storage = model.Storage{Store: memory, Outside: true}
	r.restart()
	if c.prepare != nil {
		if err := c.prepare(r); err != nil {
			return nil, fmt.Errorf("preparing: %w", err)
		}
	}
	if _, r.before, err = r.objects(); err != nil {
		return nil, err
	}
	decision, err := c.decide(r)
	if err != nil {
		return nil, err
	}
	if r.proxy, err = cutproxy.Start(sharedServer.Server(b.t).RESTConfig()); err != nil {
		return nil, err
	}
	store := &cuttingStore{memoryStore: memory, cut: cut, kill: r.proxy.Die}
	r.cut.Once = cut.once
	result, err := New(testRunner).Act(ctx,
		model.Target{Key: name, Config: r.proxy.Config(), Storage: model.Storage{Store: store, Outside: true}},
		decision, r.desired, r.options, r.chart, r.values)
	if cut.at == 0 && err != nil {
		return store.calls, err
	}
	if cut.at > len(store.calls) {
		return store.calls, fmt.Errorf("the action made fewer calls than before: %q", store.calls)
	}
	if err := r.proxy.Stop(); err != nil {
		return store.calls, err
	}
	if cut.at > 0 && !cut.kills && store.calls[cut.at-1] == "delete" && result.RecordsLeft == 0 {
		return store.calls, errors.New("the result does not report payloads that could not be deleted")
	}
	r.restart()
	if err := c.finish(r); err != nil {
		return store.calls, fmt.Errorf("afterwards: %w\ncalls before: %q", err, store.calls)
	}
	if err := errors.Join(r.check(c), r.onlyReferred()); err != nil {
		return store.calls, fmt.Errorf("%w\ncalls before: %q\ndecided afterwards: %+v", err, store.calls, r.decisions)
	}
	return store.calls, r.noneLeft(memory, store, cut)
}

// noneLeft checks that each payload in the store has a record. Payloads whose deletion failed or was not requested are
// allowed.
func (r *cutRun) noneLeft(memory *memoryStore, store *cuttingStore, cut storeCut) error {
	conn, err := r.client.connections.Get(r.target)
	if err != nil {
		return err
	}
	list, err := conn.Records(r.ctx, r.name, r.storage, nil).ListMetadata(records.Selector("demo"))
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for i := range list {
		named[list[i].Labels[model.LabelPayload]] = true
	}
	memory.mu.Lock()
	defer memory.mu.Unlock()
	var left []string
	for id := range memory.kept {
		if !named[id] {
			left = append(left, id)
		}
	}
	excused := 0
	if cut.at > 0 {
		for _, call := range store.calls[cut.at-1:] {
			if call == "delete" || call == "put" {
				excused++
			}
		}
		if cut.kills {
			excused = len(store.calls)
		}
	}
	if len(left) > excused {
		return fmt.Errorf("%d payloads are left, %d calls failed that would have kept them from it\ncalls before: %q",
			len(left), excused, store.calls)
	}
	return nil
}
