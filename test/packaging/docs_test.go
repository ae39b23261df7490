// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documentedTest matches a test in the documentation, optionally with one of its steps.
var documentedTest = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")

// TestDocumentedTestsExist checks that each test named in the documentation exists. The README names end-to-end tests,
// the pages below docs name tests of all packages.
func TestDocumentedTestsExist(t *testing.T) {
	t.Parallel()
	endToEnd, everywhere := testsBelow(t, "test/e2e"), testsBelow(t, ".")
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		tests := everywhere
		if filepath.Base(page) == "README.md" {
			tests = endToEnd
		}
		for _, name := range documentedTest.FindAllStringSubmatch(string(text), -1) {
			named++
			if !strings.Contains(tests, "\nfunc "+name[1]+"(") ||
				name[2] != "" && !strings.Contains(tests, strconv.Quote(name[2])) {
				t.Errorf("%s names %s, which does not exist", filepath.Base(page), name[0])
			}
		}
	}
	if named == 0 {
		t.Error("the documentation names no test")
	}
}

// documentedManifest matches a manifest in the folder of a release.
var documentedManifest = regexp.MustCompile(`out/addon-helmop/v[0-9.]+/([a-z-]+\.yaml)`)

// TestDocumentedManifestsHaveTheImage checks that the pages install only manifests with the image of the user: a file
// that TestReleaseManifests checks, or a kustomization that sets the image. The folders below config have an image that
// no registry has.
func TestDocumentedManifestsHaveTheImage(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range strings.Split(string(text), "```") {
			if i%2 == 1 && (strings.Contains(block, "kustomize build config/") ||
				strings.Contains(block, "../default") && !strings.Contains(block, "images:")) {
				t.Errorf("%s does not set the image of the manager:\n%s", filepath.Base(page), block)
			}
		}
		for _, file := range documentedManifest.FindAllStringSubmatch(string(text), -1) {
			named++
			if !slices.Contains(releaseManifests, file[1]) {
				t.Errorf("%s names %s, which `make release-manifests` does not write", filepath.Base(page), file[0])
			}
		}
	}
	if named == 0 {
		t.Error("the documentation names no manifest")
	}
}

// testsBelow returns the text of all tests below a folder of the repository.
func testsBelow(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
