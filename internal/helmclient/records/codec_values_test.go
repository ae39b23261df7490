// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// TestHostileRecordTakesLittleMemory checks that the number of values in a record is bounded, not only its size,
// because workload clusters are not trusted.
func TestHostileRecordTakesLittleMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	// The packed and unpacked texts take some memory; without the limit, decoding takes ten times as much.
	const limit = 96 << 20
	values := strings.TrimSuffix(strings.Repeat("{},", 5<<20), ",")
	packed, err := packText(nil, []byte(`{"name":"demo","version":1,"info":{},"config":{"a":[`+values+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	hooks := strings.TrimSuffix(strings.Repeat("{},", (maxPointerFile-20)/3), ",")
	small := &release.Release{Manifest: "a\nkind: " + PointerKind + "\n",
		Chart: &chart.Chart{Files: []*chart.File{{Name: pointerFile, Data: []byte(`{"hooks":[` + hooks + `]}`)}}}}
	record := encodeBase64(packed)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = NewCodec().decode(record, nil)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > limit || !errors.Is(err, errUnreadableRecord) {
		t.Errorf("a record takes %d MiB: %v", taken>>20, err)
	}
	before = after
	_, err = pointerOf(small)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 || !errors.Is(err, helmerr.ErrRecordDamaged) {
		t.Errorf("a pointer takes %d MiB: %v", taken>>20, err)
	}
}

// TestRecordBombTakesLittleMemory has a record that is larger than the limit when it is unpacked. While it is read, the
// memory doubles up to the limit, and never beyond.
func TestRecordBombTakesLittleMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	const limit = 2*maxRecordBytes + 8<<20
	packed, err := packText(nil, []byte(`{"manifest":"`+strings.Repeat(" ", maxRecordBytes)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	record := encodeBase64(packed)
	var held int
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = NewCodec().decode(record, func(bytes int) error { held = bytes; return nil })
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > limit || !errors.Is(err, errUnreadableRecord) {
		t.Errorf("a record takes %d MiB: %v", taken>>20, err)
	}
	if held != 2*maxRecordBytes {
		t.Errorf("%d bytes were reserved", held)
	}
}

// TestPackValuesLimit checks that a record is not written if it has too many values to be read.
func TestPackValuesLimit(t *testing.T) {
	t.Parallel()
	rls, codec := helmtest.FullRelease(), NewCodec()
	for n, large := range map[int]bool{rendering.MaxRecordValues / 2: false, rendering.MaxRecordValues + 1: true} {
		values := make(map[string]any, n)
		for i := range n {
			values[fmt.Sprint(i)] = i
		}
		rls.Config = values
		packed, err := codec.pack(rls)
		if errors.Is(err, helmerr.ErrTooLarge) != large {
			t.Fatalf("%d values: %v", n, err)
		}
		if large {
			continue
		}
		if _, err := NewCodec().unpackRecord(packed, nil); err != nil {
			t.Errorf("%d values: %v", n, err)
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
		data, err := NewCodec().Encode(rls)
		if err != nil {
			t.Fatal(err)
		}
		s := NewStore(t.Context(), StoreOptions{Codec: NewCodec()})
		if _, err := s.decode(&corev1.Secret{Data: map[string][]byte{Key: data}}); !errors.Is(err, errUnreadableRecord) {
			t.Errorf("aliases in the %s: %v", name, err)
		}
	}
}
