// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordcodec

import (
	"encoding/json"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// TestPackLimit checks that a record is not packed if it is too large to be unpacked.
func TestPackLimit(t *testing.T) {
	t.Parallel()
	pack := func(file int) ([]byte, error) {
		rls := helmtest.FullRelease()
		rls.Chart = &chart.Chart{Metadata: rls.Chart.Metadata,
			Files: []*chart.File{{Name: "zeros", Data: make([]byte, file)}}}
		codec := New()
		codec.limit = 1 << 20
		return codec.encode(rls)
	}
	if _, err := pack(1 << 20); !errors.Is(err, helmerr.ErrTooLarge) {
		t.Errorf("packed: %v", err)
	}
	// In base64, this is slightly below the limit.
	data, err := pack(760 << 10)
	if err != nil {
		t.Fatal(err)
	}
	reading := New()
	reading.limit = 1 << 20
	if _, err := reading.Decode(data, nil); err != nil {
		t.Errorf("what fits cannot be unpacked: %v", err)
	}
	if limit := New().limit; limit != maxRecordBytes {
		t.Errorf("the limit of a new codec is %d", limit)
	}
}

// TestLargeJSONIsRefusedFirst checks that a record that is too large as JSON is not written as JSON.
func TestLargeJSONIsRefusedFirst(t *testing.T) { //nolint:paralleltest // It measures memory.
	rls := helmtest.FullRelease()
	rls.Manifest = strings.Repeat("<", maxRecordBytes/6+1)
	codec := New()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := codec.pack(rls)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > maxRecordBytes/4 || !errors.Is(err, helmerr.ErrTooLarge) {
		t.Errorf("it takes %d MiB: %v", taken>>20, err)
	}
}

// TestJSONSize checks that the computed size of a text in JSON is its real size, and that of a record is not larger.
func TestJSONSize(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"plain", "<a>&\"b\"\\", "\b\f\n\r\t\x00\x1f\x7f", "Zoë \u2028\u2029 \ufffd 😀"} {
		data, err := json.Marshal(text)
		if err != nil || escapedSize(text) != len(data)-len(`""`) {
			t.Errorf("%s has %d bytes, not %d: %v", data, len(data)-len(`""`), escapedSize(text), err)
		}
	}
	for name, rls := range sparseReleases() {
		rls.Chart, rls.Labels = nil, map[string]string{"not": strings.Repeat("stored", 1000)}
		data, err := json.Marshal(rls)
		if size := jsonSize(reflect.ValueOf(rls)); err != nil || size > len(data) {
			t.Errorf("%s: %d bytes, not %d: %v", name, len(data), size, err)
		}
	}
}
