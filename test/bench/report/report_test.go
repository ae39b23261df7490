// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	r := &Report{About: map[string]string{"cpus": "2"}}
	r.Add("a", "install", "CPU", "ms", 40, Against("plain loop", 100), MaxRatio(0.5))
	r.Add("a", "upgrade", "CPU", "ms", 51, Against("plain loop", 100), MaxRatio(0.5))
	r.Add("a", "upgrade", "wall", "s", 7, Against("plain loop", 0), MaxRatio(0.9))
	r.Add("b", "idle", "requests", "", 0, Max(0))
	r.Add("b", "idle", "blobs", "", 1.25, Max(1))
	want := []string{
		"a, upgrade: CPU is 0.51, target ratio ≤ 0.50", "a, upgrade: wall is , target ratio ≤ 0.90",
		"b, idle: blobs is 1.25, target ≤ 1",
	}
	if missed := r.Missed(); !slices.Equal(missed, want) {
		t.Errorf("missed %q", missed)
	}
	var table bytes.Buffer
	if err := r.Print(&table); err != nil || !strings.Contains(table.String(), "100 plain loop  0.40") ||
		strings.Count(table.String(), "MISSED") != 3 {
		t.Errorf("%v\n%s", err, table.String())
	}
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	read := &Report{}
	if err != nil || json.Unmarshal(data, read) != nil || len(read.Figures) != 5 || *read.Figures[0].Ratio != 0.4 ||
		!read.Figures[1].Missed {
		t.Errorf("%v: %s", err, data)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	r := &Report{}
	r.Add("tools", "install", "time", "s", 12.8, Of("HelmOp"))
	r.Add("tools", "install", "pulls", "", 5, Of("HelmOp"))
	r.Add("other", "install", "time", "s", 1)
	r.Add("tools", "install", "time", "s", 48, Of("loop"), Against("HelmOp", 12.8))
	want := `
| tools | HelmOp | loop |
|---|---|---|
| install: time | 12.8 s | 48 s (3.75) |
| install: pulls | 5 | – |
`
	var printed bytes.Buffer
	if err := r.Print(&printed); err != nil || !strings.HasSuffix(printed.String(), want) ||
		strings.Count(printed.String(), "12.8") != 1 {
		t.Errorf("%v\n%s", err, printed.String())
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 12: "12", 1.234: "1.23", 12.34: "12.3", 1234.5: "1234",
		-1.5: "-1.50"} {
		if got := number(value); got != want {
			t.Errorf("%v is written as %s, not %s", value, got, want)
		}
	}
}
