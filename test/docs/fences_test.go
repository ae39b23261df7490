// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// opening matches the first line of a code block, with its language.
var opening = regexp.MustCompile("^ *```[a-z]*$")

// TestFences checks that each code block begins and ends with a line of its own. A program that wraps lines may join
// these lines with others. Then the block is not shown, and the other tests do not find its commands.
func TestFences(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for _, line := range wrongFences(read(t, page)) {
			t.Errorf("%s: %s", page, line)
		}
	}
}

// wrongFences returns the lines with a fence that is not alone, with their numbers.
func wrongFences(text string) []string {
	var wrong []string
	isOpen, number := false, 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		number++
		switch {
		case !strings.Contains(line, "```"):
		case !isOpen && opening.MatchString(line), isOpen && strings.TrimLeft(line, " ") == "```":
			isOpen = !isOpen
		default:
			wrong = append(wrong, fmt.Sprintf("%d: %s", number, line))
		}
	}
	if isOpen {
		wrong = append(wrong, "the last block has no end")
	}
	return wrong
}

func TestWrongFences(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"a\n```sh\nb\n```\n1. c\n   ```\n   d\n   ```\n": nil,
		"```sh $ make\ntest ```\n":                       {"1: ```sh $ make", "2: test ```"},
		"```\na ```\nb\n":                                {"2: a ```", "the last block has no end"},
	} {
		if got := wrongFences(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
