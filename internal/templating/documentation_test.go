// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReferenceIsComplete checks that docs/templates.md has the functions, roots and limits of this package.
func TestReferenceIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	available, rest, found := strings.Cut(string(text), "**Not available**")
	refused, _, bounded := strings.Cut(rest, "## Limits")
	if !found || !bounded {
		t.Fatal("docs/templates.md has no section on unavailable functions or limits")
	}
	_, available, _ = strings.Cut(available, "\n## Functions\n")
	word := regexp.MustCompile("`([A-Za-z0-9_]+)`")
	documented := func(section string) []string {
		var names []string
		for _, match := range word.FindAllStringSubmatch(section, -1) {
			names = append(names, match[1])
		}
		return names
	}
	can, cannot := documented(available), documented(refused)
	for name := range parserNames() {
		if !slices.Contains(can, name) {
			t.Errorf("the function %q is not documented", name)
		}
		if slices.Contains(cannot, name) {
			t.Errorf("the function %q is documented as unavailable", name)
		}
	}
	for name := range unavailable {
		if !slices.Contains(cannot, name) {
			t.Errorf("it is not documented that %q is unavailable", name)
		}
	}
	keywords := []string{"if", "with", "range", "define", "template", "keys", "values"}
	for _, name := range can {
		if _, known := parserNames()[name]; !known && !slices.Contains(keywords, name) {
			t.Errorf("the function %q is documented and does not exist", name)
		}
	}
	for root := range (Objects{Cluster: map[string]any{}}).root() {
		if !strings.Contains(string(text), "`."+root+"`") {
			t.Errorf("the root %q is not documented", root)
		}
	}
}
