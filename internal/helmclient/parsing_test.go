// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// TestParsesReserveMemory checks that an action reserves memory before it parses or builds a large manifest, that it
// keeps a part for the objects until its end, also while hooks run, and that small manifests need no memory.
func TestParsesReserveMemory(t *testing.T) {
	t.Parallel()
	k := newDiscoveryServer(t).kubeClient(t)
	budget := actionmemory.NewBudget(256 << 20)
	owner := actionmemory.Owner{Tenant: "a", Cluster: "a/one"}
	small := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	large := small + "data:\n" + strings.Repeat("- {a: 0}\n", 30_000)
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	within := func(use func(*actionmemory.Lease) error) error {
		return budget.Do(actionmemory.Waits{Context: ended}, owner, use)
	}
	for name, parse := range map[string]func(lease *actionmemory.Lease, manifest string) error{
		"decode": func(lease *actionmemory.Lease, manifest string) error {
			_, err := manifests.Decode(lease, manifest)
			return err
		},
		"build": func(lease *actionmemory.Lease, manifest string) error {
			k.Memory = lease
			_, err := k.Build(strings.NewReader(manifest), false)
			return err
		},
		"objects of other owners": func(lease *actionmemory.Lease, manifest string) error {
			k.Memory = lease
			_, err := k.Unowned(manifest)
			return err
		},
	} {
		var kept int64
		err := within(func(lease *actionmemory.Lease) error {
			err := parse(lease, large)
			kept = lease.Held()
			return err
		})
		if err != nil || kept < 1<<20 || kept > 32<<20 || budget.Used() != 0 {
			t.Errorf("%s: %d bytes are kept for the objects, %d after the end: %v", name, kept, budget.Used(), err)
		}
		other := budget.Lease(actionmemory.Owner{})
		if err := other.Records(budget.Total() - 4<<20); err != nil {
			t.Fatal(err)
		}
		if err := within(func(lease *actionmemory.Lease) error { return parse(lease, large) }); !errors.Is(err,
			helmerr.ErrBusy) {
			t.Errorf("%s without free memory: %v", name, err)
		}
		if err := within(func(lease *actionmemory.Lease) error { return parse(lease, small) }); err != nil {
			t.Errorf("%s of a small manifest: %v", name, err)
		}
		other.Release()
	}
	err := within(func(lease *actionmemory.Lease) error {
		k.Memory = lease
		rendered := yamlweight.Weight{Bytes: int64(len(large)), Values: 120_000}
		if err := lease.Render(rendered); err != nil {
			return err
		}
		if _, err := k.Build(strings.NewReader(large), false); err != nil {
			return err
		}
		if held := lease.Held(); held != rendered.ParseCost() {
			t.Errorf("%d bytes are held for a rendered manifest, want %d", held, rendered.ParseCost())
		}
		_, _ = k.Create(kube.ResourceList{})
		if held := lease.Held(); held == 0 || held > rendered.ParseCost()/2 {
			t.Errorf("%d bytes are held while objects are created and hooks run", held)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestUninstallationReservesMemory checks that an uninstallation weighs the manifests of old revisions, and reserves
// memory for them, also if they are shorter than the newest manifest. The newest manifest is not counted again in
// Helm's form.
func TestUninstallationReservesMemory(t *testing.T) {
	t.Parallel()
	k := newDiscoveryServer(t).kubeClient(t)
	k.Lenient = true
	budget := actionmemory.NewBudget(256 << 20)
	k.Memory = budget.Lease(actionmemory.Owner{})
	k.Memory.Force()
	small := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	newest := small + "data:\n  a: " + strings.Repeat("x", 2<<20)
	weight, err := k.Memory.Weigh(newest)
	if err != nil {
		t.Fatal(err)
	}
	weight.Bytes += int64(len("\n---\n"))
	if err := k.Memory.Render(weight); err != nil {
		t.Fatal(err)
	}
	old := small + "data:\n" + strings.Repeat("- {a: 0}\n", 30_000)
	hostile := small + "data:\n" + strings.Repeat("- {}\n", 200_000)
	for i, manifest := range []string{newest, old, hostile} {
		k.Seen.Add(&release.Release{Version: 3 - i, Manifest: manifest})
	}
	rendered := budget.Used()
	for _, step := range []struct {
		name, manifest string
		isMore         bool
		want           error
	}{
		{"the newest manifest", "\n---\n" + newest, false, nil},
		{"a hook", small, false, nil},
		{"an old manifest", old, true, nil},
		{"a hostile old manifest", hostile, true, helmerr.ErrInvalidChart},
	} {
		_, err := k.Build(strings.NewReader(step.manifest), false)
		if more := budget.Used() > rendered; more != step.isMore || !errors.Is(err, step.want) {
			t.Errorf("%s: %d bytes are held after %d: %v", step.name, budget.Used(), rendered, err)
		}
	}
}

// TestCachedManifestReservesMemory checks that memory is reserved to unpack a cached manifest, even if its parse is not
// counted.
func TestCachedManifestReservesMemory(t *testing.T) {
	t.Parallel()
	c, target := newDiscoveryServer(t).client(t)
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  a: " + strings.Repeat("x", 300<<10)
	key := releaseKey(target, "apps", "web")
	c.manifests.Put(key, 1, text)
	s, err := c.open(t.Context(), target, model.Desired{Namespace: "apps", Name: "web"}, &helmerr.LogBuffer{})
	if err != nil {
		t.Fatal(err)
	}
	budget := actionmemory.NewBudget(256 << 20)
	s.SetMemory(budget.Lease(actionmemory.Owner{}))
	if _, err := c.manifest(s, key, 1, false); err != nil || budget.Used() < int64(len(text)) {
		t.Errorf("%d bytes are held for a text of %d: %v", budget.Used(), len(text), err)
	}
}
