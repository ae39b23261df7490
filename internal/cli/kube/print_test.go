// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"slices"
	"strings"
	"testing"
)

func TestClip(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", maxMessage) + ", end"
	for _, tc := range []struct {
		text string
		wide bool
		want string
	}{
		{"a\nb  c", false, "a b c"},
		{long, true, long},
		{long, false, strings.Repeat("ü", maxMessage) + "..."},
	} {
		if got := Clip(tc.text, tc.wide); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

// TestColumns expects one write for each table, and columns of the widths of the first table.
func TestColumns(t *testing.T) {
	t.Parallel()
	var writes recordedWrites
	columns := NewColumns(&writes)
	for _, name := range []string{"a-long-name", "b"} {
		table := NewTable(false, len(writes) > 0, "NAME", "STATE")
		table.Add(name, "Ready")
		if err := columns.Print(table); err != nil {
			t.Fatal(err)
		}
	}
	want := recordedWrites{"NAME          STATE\na-long-name   Ready\n", "b             Ready\n"}
	if !slices.Equal(writes, want) {
		t.Errorf("got %q, want %q", writes, want)
	}
}

// recordedWrites are the writes to a writer.
type recordedWrites []string

func (w *recordedWrites) Write(data []byte) (int, error) {
	*w = append(*w, string(data))
	return len(data), nil
}
