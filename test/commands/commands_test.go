// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBlock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const page = "# Page\n\n## One\n\n```sh\nfirst\n```\n\n```\noutput\n```\n\n1. In a list:\n\n   ```sh\n   second \\\n" +
		"     more\n   ```\n\n## Two\n\n```sh\nthird\n```\n"
	if err := os.WriteFile(filepath.Join(root, "page.md"), []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	for contains, want := range map[string]string{
		"first": "\nfirst\n", "more": "\nsecond \\\n  more\n", "output": "", "third": "",
	} {
		got, err := Block(root, "page.md", "## One", contains)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", contains, got, err, want)
		}
	}
	if _, err := Block(root, "page.md", "## Three", "first"); err == nil {
		t.Error("a heading that does not exist is found")
	}
}
