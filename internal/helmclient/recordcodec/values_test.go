// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordcodec

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

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
	record := EncodeBase64(packed)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = New().Decode(record, nil)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > limit || !errors.Is(err, ErrUnreadable) {
		t.Errorf("a record takes %d MiB: %v", taken>>20, err)
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
	record := EncodeBase64(packed)
	var held int
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = New().Decode(record, func(bytes int) error { held = bytes; return nil })
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > limit || !errors.Is(err, ErrUnreadable) {
		t.Errorf("a record takes %d MiB: %v", taken>>20, err)
	}
	if held != 2*maxRecordBytes {
		t.Errorf("%d bytes were reserved", held)
	}
}

// TestPackValuesLimit checks that a record is not written if it has too many values to be read.
func TestPackValuesLimit(t *testing.T) {
	t.Parallel()
	rls, codec := helmtest.FullRelease(), New()
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
		if _, err := New().Unpack(packed, nil); err != nil {
			t.Errorf("%d values: %v", n, err)
		}
	}
}
