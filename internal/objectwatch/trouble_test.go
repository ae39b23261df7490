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

package objectwatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

func TestTrouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var first, second trouble
		if first.isStuck(time.Minute) || first.older(second).err != nil {
			t.Error("no trouble, but some is told")
		}
		began := time.Now()
		if !first.set(errors.New("a")) || first.set(errors.New("a")) {
			t.Error("an error is news once")
		}
		<-time.After(time.Minute)
		second.set(errors.New("c"))
		if !first.set(errors.New("b")) || !first.since.Equal(began) {
			t.Errorf("another error is news, but the trouble began before: %+v", first)
		}
		if !first.isStuck(time.Minute) || second.isStuck(time.Minute) {
			t.Error("trouble is to be told after a minute")
		}
		if first.older(second).err.Error() != "b" || second.older(first).err.Error() != "b" || second.older(trouble{}).err.Error() != "c" {
			t.Error("want what began first")
		}
	})
}

// TestTroubleIsTold holds that a release hears once of a cluster that does not answer for long, and of its return.
func TestTroubleIsTold(t *testing.T) {
	b := newBench(t)
	deployment, config := b.createDeployment("d", helmLabels()), b.createConfigMap("c")
	b.watcher.stuckAfter = 3 * time.Second
	release := key("r")
	b.watcher.Follow(release, b.conn, Plan{Objects: []inventory.Ref{deployment, config}, Checker: checker(t), Drift: true})
	if before := b.synced(release); before.Err != nil || !before.ErrSince.IsZero() {
		t.Fatalf("got %+v", before)
	}
	eventually(t, "the first request", func() bool { return b.asked(release) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := b.server.StopAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second request", func() bool { return b.asked(release) == 2 })
	stuck := b.look(release)
	if !stuck.Synced || stuck.Err == nil || time.Since(stuck.ErrSince) < b.watcher.stuckAfter {
		t.Errorf("got %+v", stuck)
	}
	never(t, 3*time.Second, "the release was asked for twice", func() bool { return b.asked(release) > 2 })
	if still := b.look(release); !still.ErrSince.Equal(stuck.ErrSince) {
		t.Errorf("the trouble began at %s, not %s", stuck.ErrSince, still.ErrSince)
	}
	if err := b.server.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a request when all is well", func() bool { return b.asked(release) > 2 && b.look(release).Err == nil })
	if after := b.look(release); !after.ErrSince.IsZero() {
		t.Errorf("got %+v", after)
	}
}

func TestTroubleOfConnection(t *testing.T) {
	t.Parallel()
	w := New(Options{})
	bad := Connection{Cluster: "c", Config: &rest.Config{Host: "://"}}
	w.Follow(key("r"), bad, Plan{})
	first, _ := w.Look(key("r"))
	w.Follow(key("r"), bad, Plan{Drift: true})
	if second, _ := w.Look(key("r")); first.Err == nil || first.ErrSince.IsZero() || !second.ErrSince.Equal(first.ErrSince) {
		t.Errorf("got %+v, then %+v", first, second)
	}
}
