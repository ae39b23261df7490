// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
)

// TestHoldCountsTheLargestPayload checks that an action holds memory for its largest payload, keeps a part of it at
// rest, and gets the rest again for its next record.
func TestHoldCountsTheLargestPayload(t *testing.T) {
	t.Parallel()
	memory := actionmemory.NewBudget(1 << 30)
	waits := actionmemory.Waits{Context: t.Context()}
	err := memory.Do(waits, actionmemory.Owner{}, func(lease *actionmemory.Lease) error {
		s := &Store{Memory: lease}
		for _, step := range []struct {
			size       int
			want, rest int64
		}{
			{smallPayload, 0, 0},
			{1 << 20, payloadCopies << 20, 2 << 20},
			{10, 2 << 20, 2 << 20},
			{3 << 20, 3 * payloadCopies << 20, 6 << 20},
			{2 << 20, 2 * payloadCopies << 20, 6 << 20},
		} {
			if err := s.Hold(step.size); err != nil {
				return err
			}
			if held := memory.Used(); held != step.want {
				t.Errorf("%d bytes are held for a payload of %d, want %d", held, step.size, step.want)
			}
			for range 2 {
				if s.rest(); memory.Used() != step.rest {
					t.Errorf("%d bytes are held after a payload of %d, want %d", memory.Used(), step.size, step.rest)
				}
			}
		}
		return nil
	})
	if err != nil || memory.Used() != 0 {
		t.Errorf("%d bytes are left: %v", memory.Used(), err)
	}
}

// TestPackReservesMemory checks that a release is packed only after memory for its chart and its texts is reserved.
func TestPackReservesMemory(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 2<<20)
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	for name, rls := range map[string]*release.Release{
		"manifest": {Manifest: text},
		"hook":     {Hooks: []*release.Hook{nil, {Manifest: text}}},
		// The chart compresses to some kilobytes.
		"chart": {Chart: &chart.Chart{Files: []*chart.File{nil, {Name: "a", Data: []byte(text)}}}},
	} {
		for _, size := range []int64{1 << 20, 1 << 30} {
			memory, used := actionmemory.NewBudget(1<<30), int64(0)
			full := memory.Lease(actionmemory.Owner{})
			if err := full.Records(memory.Total() - size); err != nil {
				t.Fatal(err)
			}
			err := memory.Do(actionmemory.Waits{Context: ended}, actionmemory.Owner{}, func(lease *actionmemory.Lease) error {
				s := &Store{codec: recordcodec.New(), Memory: lease}
				_, err := s.Pack(rls)
				used = memory.Used()
				return err
			})
			if isFree := size == 1<<30; isFree == errors.Is(err, helmerr.ErrBusy) || isFree && (err != nil || used == 0) {
				t.Errorf("%s with %d free bytes: %d are used: %v", name, size, used, err)
			}
		}
	}
}

// TestUpdateReservesMemory checks that memory is reserved before a record is packed again, for its texts as JSON.
func TestUpdateReservesMemory(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*release.Release, string){
		"manifest":    func(rls *release.Release, text string) { rls.Manifest = text },
		"hook":        func(rls *release.Release, text string) { rls.Hooks[0].Manifest = text },
		"description": func(rls *release.Release, text string) { rls.Info.Description = text },
		"values":      func(rls *release.Release, text string) { rls.Config = map[string]any{"a": []any{text}} },
		"chart":       func(rls *release.Release, text string) { rls.Chart.Metadata.Description = text },
	} {
		rls := helmtest.FullRelease()
		change(rls, strings.Repeat("<", 2<<20))
		memory := actionmemory.NewBudget(1 << 30)
		full := memory.Lease(actionmemory.Owner{})
		// Without escapes, this would be enough.
		if err := full.Records(memory.Total() - 8<<20); err != nil {
			t.Fatal(err)
		}
		s := NewStore(t.Context(), StoreOptions{Codec: recordcodec.New()})
		s.Memory = memory.Lease(actionmemory.Owner{})
		if err := s.updateWhole("demo", rls); err == nil {
			t.Errorf("%s: packed without free memory", name)
		}
		full.Release()
		s.Memory = memory.Lease(actionmemory.Owner{})
		if _, err := s.Pack(rls); err != nil || memory.Used() < 2*6*2<<20 {
			t.Errorf("%s: %d bytes are held: %v", name, memory.Used(), err)
		}
	}
}

// TestHostileManifestIsRefused checks that a record is not read if its manifest or a hook takes gigabytes with expanded
// YAML aliases. For the limits of the record, a manifest is one value.
func TestHostileManifestIsRefused(t *testing.T) {
	t.Parallel()
	bomb := "a: &a " + strings.Repeat("x", 1<<17) + "\nl: [" + strings.Repeat("*a,", 20_000) + "*a]\n"
	inManifest, inHook, inLater := helmtest.FullRelease(), helmtest.FullRelease(), helmtest.FullRelease()
	inManifest.Manifest = bomb
	inHook.Hooks = append(inHook.Hooks, nil, &release.Hook{Manifest: bomb})
	inLater.Manifest = "kind: ConfigMap\n---\n" + bomb
	for name, rls := range map[string]*release.Release{
		"manifest": inManifest, "a later document": inLater, "hook": inHook,
	} {
		data, err := recordcodec.EncodeSmall(rls)
		if err != nil {
			t.Fatal(err)
		}
		s := NewStore(t.Context(), StoreOptions{Codec: recordcodec.New()})
		_, err = s.decode(&corev1.Secret{Data: map[string][]byte{Key: data}})
		if !errors.Is(err, recordcodec.ErrUnreadable) {
			t.Errorf("aliases in the %s: %v", name, err)
		}
	}
}
