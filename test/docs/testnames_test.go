// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName     = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)[`/]")
	testFunction = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
)

// TestNamesOfTests checks that each test that a page names exists. docs/security.md names a test for each of its
// claims.
func TestNamesOfTests(t *testing.T) {
	t.Parallel()
	exists := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, match := range testFunction.FindAllStringSubmatch(read(t, path), -1) {
			exists[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, page := range pages(t) {
		for _, match := range testName.FindAllStringSubmatch(read(t, page), -1) {
			names++
			if !exists[match[1]] {
				t.Errorf("%s: the test %s does not exist", page, match[1])
			}
		}
	}
	if names < 200 {
		t.Errorf("%d names of tests in the documentation, expected 200 or more: does the test still find them?", names)
	}
}
