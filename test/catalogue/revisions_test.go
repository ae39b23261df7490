// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"go/ast"
	"regexp"
	"testing"
)

// numberedRevision matches the number of a revision and, if it is there, the kind before it.
var numberedRevision = regexp.MustCompile(`(?i)((?:Helm|HelmOp|source) |-)?\brevision (?:%[dsv]|[0-9]+\b)`)

// bareRevision returns the first revision in a text that has a number and no kind.
func bareRevision(text string) string {
	for _, match := range numberedRevision.FindAllStringSubmatch(text, -1) {
		if match[1] == "" {
			return match[0]
		}
	}
	return ""
}

// TestRevisionsHaveAKind checks that messages and descriptions name the kind of a revision: Helm or HelmOp.
func TestRevisionsHaveAKind(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"api", "cmd", "controllers", "internal"} {
		for _, file := range sources(t, folder) {
			ast.Inspect(file, func(node ast.Node) bool {
				text := inOneLine(literal(node))
				if bare := bareRevision(text); bare != "" {
					t.Errorf("%q: write Helm or HelmOp before %q", text, bare)
				}
				return true
			})
		}
	}
	for _, page := range append(pages(t), files(t, "config/crd/bases/*.yaml")...) {
		if bare := bareRevision(inOneLine(read(t, page))); bare != "" {
			t.Errorf("%s: write Helm or HelmOp before %q", page, bare)
		}
	}
	for text, want := range map[string]string{
		"Revision %d is up to date":                        "Revision %d",
		"Helm revision 3 to 4":                             "",
		"HelmOp revision 7 has the content of revision %d": "revision %d",
	} {
		if got := bareRevision(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
