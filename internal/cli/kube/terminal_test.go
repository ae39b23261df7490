// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestTerminal checks that a screen replaces the previous screen, and that texts from a cluster cannot send control
// sequences.
func TestTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	terminal := NewTerminal(&out, func() (int, int, error) { return 0, 0, errors.New("no size") })
	if width, height := terminal.Size(); width != 80 || height != 24 {
		t.Errorf("got %d columns and %d lines", width, height)
	}
	if err := errors.Join(terminal.Enter(), terminal.Draw([]string{"a", "b\x1b[2J"}), terminal.Leave()); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[?1049h\x1b[?25l" + "\x1b[Ha\x1b[K\r\nb^[[2J\x1b[K\x1b[J" + "\x1b[?25h\x1b[?1049l"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestNoTerminal(t *testing.T) {
	t.Parallel()
	b := NewBase(Options{Streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}}})
	if b.Terminal() != nil {
		t.Error("a buffer is no terminal")
	}
}
