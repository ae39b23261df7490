// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	b := &bed{T: t}
	for name, tc := range map[string]struct{ args, want []string }{
		"commands":          {[]string{""}, []string{"push", "bootstrap", "completion"}},
		"a command's begin": {[]string{"bootstrap", ""}, []string{"oci"}},
		"flags":             {[]string{"bootstrap", "oci", "--cluster-"}, []string{"--cluster-path", "--cluster-url"}},
		"values":            {[]string{"push", "--format", ""}, []string{"HelmChart", "Flux"}},
	} {
		var got []string
		for line := range strings.Lines(b.okBare(append([]string{"__complete"}, tc.args...)...)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		for _, want := range tc.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q has no %s", name, got, want)
			}
		}
	}
}

// TestCompletionScripts holds that the scripts name the program, which people and kubectl call by different names.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	b := &bed{T: t}
	for shell, want := range map[string]string{
		"kubectl": "#!/bin/sh\nexec kubectl-helmop __complete \"$@\"\n",
		"bash":    "__start_kubectl-helmop kubectl-helmop\n",
		"zsh":     "#compdef kubectl-helmop\n",
	} {
		if got := b.okBare("completion", shell); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in\n%s", shell, want, got)
		}
	}
	if got := b.okBare("push", "--help"); !strings.Contains(got, "\n  kubectl helmop push DIR|FILE|CHART") {
		t.Errorf("%s", got)
	}
}
