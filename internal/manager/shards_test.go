// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func TestShardNames(t *testing.T) {
	t.Parallel()
	for shard, valid := range map[string]bool{
		"": true, "b": true, "team-7": true, strings.Repeat("a", 63): true,
		strings.Repeat("a", 64): false, "B": false, "a_b": false, "a.b": false, "-a": false, "a/b": false,
	} {
		options := &Options{}
		fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		options.AddFlags(fs)
		if err := fs.Set("shard", shard); err != nil {
			t.Fatal(err)
		}
		if err := options.Validate(); (err == nil) != valid {
			t.Errorf("--shard=%q: %v", shard, err)
		}
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	c := fake.NewClientBuilder().Build()
	h := &heartbeat{client: c, live: c, key: client.ObjectKey{Namespace: "system", Name: "lease-b"},
		duration: 15 * time.Second, now: func() time.Time { return now }}
	for _, holder := range []string{"me", "me", ""} {
		now = now.Add(5 * time.Second)
		if err := h.beat(t.Context(), holder); err != nil {
			t.Fatal(err)
		}
		lease := &coordinationv1.Lease{}
		if err := c.Get(t.Context(), h.key, lease); err != nil {
			t.Fatal(err)
		}
		if spec := lease.Spec; *spec.HolderIdentity != holder || !spec.RenewTime.Time.Equal(now) ||
			*spec.LeaseDurationSeconds != 15 {
			t.Errorf("the lease is %+v", lease.Spec)
		}
	}
}

func TestOnlyShardIsKept(t *testing.T) {
	t.Parallel()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "c", UID: "u", ResourceVersion: "7", Annotations: map[string]string{"a": "much"},
		Labels: map[string]string{addonsv1.ShardLabel: "b", clusterv1.WatchLabel: "w", "other": "o"},
	}}
	kept, err := onlyShard(object)
	if err != nil {
		t.Fatal(err)
	}
	got := kept.(*metav1.PartialObjectMetadata)
	if len(got.Annotations) > 0 || len(got.Labels) != 2 || got.Labels[addonsv1.ShardLabel] != "b" || got.UID != "u" ||
		got.ResourceVersion != "7" || got.Name != "c" {
		t.Errorf("kept %+v", got)
	}
}
