// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxWidth is the number of characters in a line of the documentation.
const maxWidth = 120

// generatedLine is the beginning of lines of the API reference that the generator does not wrap.
const generatedLine = "Used by: "

// TestWidth checks that the documentation wraps. Tables, code blocks and generated lines need not wrap.
func TestWidth(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, line := range tooWide(read(t, page)) {
			t.Errorf("%s: wrap at %d characters: %s", page, maxWidth, line)
		}
	}
}

// tooWide returns the lines of a page that should wrap and do not.
func tooWide(text string) []string {
	var wide []string
	fence := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		start := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(start, "```"):
			fence = !fence
		case fence, strings.HasPrefix(start, "|"), strings.HasPrefix(start, generatedLine):
		case utf8.RuneCountInString(line) > maxWidth:
			wide = append(wide, line)
		}
	}
	return wide
}

func TestTooWide(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("…", maxWidth+1)
	text := long[len("…"):] + "\n" + long + "\n| " + long + " |\n```\n" + long + "\n```\n  " + long + "\n"
	if got, want := tooWide(text), []string{long, "  " + long}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
