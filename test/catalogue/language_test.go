// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// outOfUse matches words that the documentation of Kubernetes does not use, or not in this sense.
var outOfUse = regexp.MustCompile(`(?i)\b(errands?|sightings?|blindness|verdicts?|fate|elsewhere|doubt|chores|distrust|vain|` +
	`adoptees?|strays|anew|heeds?|be it that|nobody|whoever|somebody|of which|thereby|(is|are) to be|comes? to|stands? for|goes? by|tells?|told)\b`)

func TestPlainEnglish(t *testing.T) {
	t.Parallel()
	for _, page := range append(pages(t), files(t, "Makefile", "config/*/*.yaml", "config/*/*/*.yaml", "hack/*.sh",
		"test/charts/*/*.yaml", "test/charts/*/templates/*", "test/charts/*.md")...) {
		lines := strings.Split(read(t, page), "\n")
		for i, line := range lines {
			// A phrase may continue in the next line.
			if i+1 < len(lines) {
				line += " " + strings.TrimLeft(lines[i+1], " ")
			}
			for _, match := range outOfUse.FindAllStringIndex(line, -1) {
				start, end := match[0], match[1]
				if start >= len(lines[i]) {
					continue
				}
				t.Errorf("%s:%d: %q: use another word, see the glossary of the project", page, i+1, line[start:end])
			}
		}
	}
}

// pages returns the Markdown files for users.
func pages(t *testing.T) []string {
	t.Helper()
	return files(t, "*.md", "docs/*.md", "docs/reference/*.md", "examples/*.md")
}

// files returns the files of the repository that match patterns. Each pattern must match at least one file.
func files(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no %s (%v)", pattern, err)
		}
		for _, file := range found {
			relative, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, filepath.ToSlash(relative))
		}
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
