// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

// removal finds the sections that remove the manager.
var removal = regexp.MustCompile(`(?m)^## (Uninstall|Remove|Go back)$`)

// TestRemovalDeletesExtension checks that each section that removes the manager first deletes the ExtensionConfig.
// Otherwise Cluster API waits for an extension that never answers.
func TestRemovalDeletesExtension(t *testing.T) {
	t.Parallel()
	sections := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, at := range removal.FindAllStringIndex(text, -1) {
			sections++
			section, _, _ := strings.Cut(text[at[1]:], "\n## ")
			if !strings.Contains(section, "kubectl delete extensionconfig ") {
				t.Errorf("%s: %q does not delete the ExtensionConfig", page, text[at[0]:at[1]])
			}
		}
	}
	if sections < 4 {
		t.Errorf("%d sections that remove the manager, expected 4 or more: does the test still find them?", sections)
	}
}
