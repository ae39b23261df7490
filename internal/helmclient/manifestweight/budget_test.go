// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manifestweight

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// bomb is a manifest of about 100 KB that takes gigabytes with expanded aliases.
func bomb() string {
	return "a: &a " + strings.Repeat("x", 1<<17) + "\nl: [" + strings.Repeat("*a,", 20_000) + "*a]\n"
}

func TestBudget(t *testing.T) {
	t.Parallel()
	half := strings.Repeat("- {a: 0}\n", MaxValues/6)
	for name, tc := range map[string]struct {
		texts []string
		want  error
	}{
		"objects":                         {[]string{"kind: A\n---\nkind: B\n", "", "---\n"}, nil},
		"few aliases":                     {[]string{"a: &a {b: c}\nd: *a\n"}, nil},
		"the signs of aliases":            {[]string{"a: 'x &b y'\nc: \"* *b\"\n"}, nil},
		"aliases":                         {[]string{bomb()}, ErrTooLarge},
		"aliases in the second text":      {[]string{"kind: A", "kind: B\n---\n" + bomb()}, ErrTooLarge},
		"aliases after a carriage return": {[]string{"kind: A\r---\r" + bomb()}, ErrTooLarge},
		"values":                          {[]string{half}, nil},
		"values together":                 {[]string{half, half, half}, ErrTooLarge},
		"bytes together":                  {[]string{strings.Repeat("x", MaxBytes), "y"}, ErrTooLarge},
		"a cycle":                         {[]string{"a: &a [*a]\n"}, yamlweight.ErrCycle},
		"UTF-16":                          {[]string{"kind: A\n---\n" + "\xff\xfea\x00:\x00 \x00b\x00"}, yamlweight.ErrEncoding},
		"a directive":                     {[]string{"%TAG ! tag:x,\r---\r- !a b\n"}, yamlweight.ErrTag},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var taken, added Budget
			var takeErr, addErr error
			for _, text := range tc.texts {
				takeErr = errors.Join(takeErr, taken.Take(text))
				weight, err := Measure(text, nil)
				addErr = errors.Join(addErr, err, added.Add(weight))
			}
			if !errors.Is(takeErr, tc.want) || !errors.Is(addErr, tc.want) {
				t.Errorf("got %v and %v, want %v", takeErr, addErr, tc.want)
			}
		})
	}
}

// TestWeighingTakesLittleMemory checks that a text with many values is refused before it is parsed, also if it has
// aliases.
func TestWeighingTakesLittleMemory(t *testing.T) { //nolint:paralleltest // It measures memory.
	text := "- &a b\n- *a\n" + strings.Repeat("- {a: 0}\n", MaxValues)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Measure(text, nil)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > uint64(4*len(text)) || !errors.Is(err, ErrTooLarge) {
		t.Errorf("a text of %d bytes takes %d: %v", len(text), taken, err)
	}
}
