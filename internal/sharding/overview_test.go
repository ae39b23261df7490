// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sharding

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestShardOverview(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	h, c, _ := controllertest.ShardedObjects("b", "b", "b")
	paused := h.DeepCopy()
	paused.Name, paused.UID, paused.Spec.Paused = "paused", "s", true
	cached, live := controllertest.ShardStores(t, "", h, c, paused)
	o := NewShardOverview(ShardOverviewOptions{Client: &writing{Client: cached, to: live}, Live: live, Others: live,
		LeaseNamespace: "system", LeaseDuration: 15 * time.Second})
	o.now = func() time.Time { return now }
	reason := func() string {
		t.Helper()
		if err := o.update(t.Context()); err != nil {
			t.Fatal(err)
		}
		current := &addonsv1.HelmOp{}
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(h), current); err != nil {
			t.Fatal(err)
		}
		return conditions.GetReason(current, addonsv1.ReadyCondition)
	}
	if got := reason(); got != "" {
		t.Errorf("at once: %s", got)
	}
	now = now.Add(30 * time.Second)
	if got := reason(); got != addonsv1.ShardNotServedReason {
		t.Errorf("after a while: %s", got)
	}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(paused), paused); err != nil ||
		len(paused.Status.Conditions) > 0 {
		t.Errorf("of one that is paused: %+v, %v", paused.Status.Conditions, err)
	}
	// The manager comes, and its clock is an hour behind.
	renew := func() *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: apiutil.ShardLease("b")},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("m"), LeaseDurationSeconds: ptr.To(int32(15)),
				RenewTime: &metav1.MicroTime{Time: now.Add(-time.Hour)},
			}}
	}
	if err := live.Create(t.Context(), renew()); err != nil {
		t.Fatal(err)
	}
	reason()
	now = now.Add(10 * time.Second)
	lease := renew()
	before := &coordinationv1.Lease{}
	if err := live.Get(t.Context(), client.ObjectKeyFromObject(lease), before); err != nil {
		t.Fatal(err)
	}
	lease.ResourceVersion = before.ResourceVersion
	if err := live.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	reason()
	if state := o.shards["b"]; !state.unservedSince.IsZero() || len(state.reported) > 0 {
		t.Errorf("a lease that is renewed counts for nothing: %+v", state)
	}
	now = now.Add(time.Minute)
	reason()
	if o.shards["b"].unservedSince.IsZero() {
		t.Error("a lease that is not renewed any more counts")
	}
}

// TestShardOverviewErrorOfOneShardDoesNotAffectOthers checks that a HelmOp which cannot be
// reported hides no shard.
func TestShardOverviewErrorOfOneShardDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for _, shard := range []string{"refused", "x", "y", "z"} {
		h, _, _ := controllertest.ShardedObjects(shard, shard, shard)
		h.Name, h.UID = shard, types.UID(shard)
		objects = append(objects, h)
	}
	cached, live := controllertest.ShardStores(t, "", objects...)
	failing := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, obj client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption) error {
			if obj.GetName() == "refused" {
				return errors.New("refused by a webhook")
			}
			return c.SubResource(name).Patch(ctx, obj, patch, opts...)
		},
	})
	o := NewShardOverview(ShardOverviewOptions{Client: &writing{Client: cached, to: failing}, Live: live, Others: live,
		LeaseNamespace: "system"})
	if err := o.update(t.Context()); err == nil {
		t.Error("nothing is said of the one that was refused")
	}
	for _, h := range objects {
		current := &addonsv1.HelmOp{}
		if err := live.Get(t.Context(), client.ObjectKeyFromObject(h), current); err != nil {
			t.Fatal(err)
		}
		reported := conditions.GetReason(current, addonsv1.ReadyCondition) == addonsv1.ShardNotServedReason
		if o.shards[h.GetName()] == nil || reported != (h.GetName() != "refused") {
			t.Errorf("shard %s is checked: %t, reported: %t", h.GetName(), o.shards[h.GetName()] != nil, reported)
		}
	}
}

// TestShardOverviewCountsBeforeItReports reports a HelmOp of one shard until the time ends, and cannot read the
// lease of another shard. The overview counts the known shards.
func TestShardOverviewCountsBeforeItReports(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for _, shard := range []string{"count-slow", "count-x", "count-y", "count-unread"} {
		h, _, _ := controllertest.ShardedObjects(shard, shard, shard)
		h.Name, h.UID = shard, types.UID(shard)
		objects = append(objects, h)
	}
	cached, live := controllertest.ShardStores(t, "", objects...)
	ctx, cancel := context.WithCancel(t.Context())
	failing := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			options ...client.GetOption) error {
			switch key.Name {
			case apiutil.ShardLease("count-unread"):
				return errors.New("unread")
			case "count-slow", "count-x", "count-y":
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
			return c.Get(ctx, key, obj, options...)
		},
	})
	o := NewShardOverview(ShardOverviewOptions{Client: cached, Live: failing, Others: live, LeaseNamespace: "system"})
	if err := o.update(ctx); err == nil {
		t.Error("nothing is said of what cannot be read")
	}
	for shard, want := range map[string]int{"count-slow": 1, "count-x": 1, "count-y": 1, "count-unread": 0} {
		if got := gauges(t, shardOwned, shard); got != want {
			t.Errorf("%d figures of whether %s is served, want %d", got, shard, want)
		}
		if got := gauges(t, shardObjects, shard); got != 2 {
			t.Errorf("%d figures of what %s has", got, shard)
		}
	}
	for _, h := range objects {
		if err := live.Delete(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	err := o.update(t.Context())
	if err != nil || gauges(t, shardOwned, "count-x")+gauges(t, shardObjects, "count-x") > 0 {
		t.Errorf("shards that are gone are counted: %v", err)
	}
}

// gauges returns the number of metrics of a shard.
func gauges(t *testing.T, all *prometheus.GaugeVec, shard string) int {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(all)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "shard" && label.GetValue() == shard {
					n++
				}
			}
		}
	}
	return n
}

// TestShardOverviewReadsPausedHelmOpOnce checks that a paused HelmOp is read once, and again when it changed.
func TestShardOverviewReadsPausedHelmOpOnce(t *testing.T) {
	t.Parallel()
	h, _, _ := controllertest.ShardedObjects("asleep", "asleep", "asleep")
	h.Spec.Paused = true
	cached, live := controllertest.ShardStores(t, "", h)
	reads := 0
	counting := interceptor.NewClient(live.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object,
			options ...client.GetOption) error {
			if key.Name == h.Name {
				reads++
			}
			return c.Get(ctx, key, obj, options...)
		},
	})
	o := NewShardOverview(ShardOverviewOptions{Client: &writing{Client: cached, to: live}, Live: counting, Others: live,
		LeaseNamespace: "system"})
	for i := range 4 {
		if i == 3 {
			current := &addonsv1.HelmOp{}
			err := live.Get(t.Context(), client.ObjectKeyFromObject(h), current)
			current.Spec.Paused = false
			if err := errors.Join(err, live.Update(t.Context(), current)); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.update(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 2 || !o.shards["asleep"].reported[h.UID] {
		t.Errorf("%d reads, reported: %v", reads, o.shards["asleep"].reported)
	}
}

// writing reads one store and writes another.
type writing struct {
	client.Client
	to client.Client
}

func (w *writing) Status() client.SubResourceWriter { return w.to.Status() }

// TestOverviewWaitsForCache reads nothing before the watches of other shards have started.
func TestOverviewWaitsForCache(t *testing.T) {
	t.Parallel()
	o := NewShardOverview(ShardOverviewOptions{LeaseDuration: time.Second,
		Synced: func(context.Context) bool { return false }})
	if err := o.Start(t.Context()); err != nil {
		t.Error(err)
	}
}
