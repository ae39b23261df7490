// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"strings"
)

// Notes returns the changes of a version from a changelog in the format of keepachangelog.com. It uses the section of
// the version. If there is none, it uses the section "Unreleased".
func Notes(changelog, version string) (string, error) {
	name := strings.TrimPrefix(version, "v")
	for _, title := range []string{name, "Unreleased"} {
		if text, ok := section(changelog, title); ok {
			return text, nil
		}
	}
	return "", fmt.Errorf("the changelog has neither a section [%s] nor a section [Unreleased]: add the changes of %s",
		name, version)
}

// section returns the text below the heading of a version.
func section(changelog, title string) (string, bool) {
	var text strings.Builder
	inside := false
	for line := range strings.Lines(changelog) {
		switch {
		case strings.HasPrefix(line, "## "):
			if inside {
				return trimmed(&text)
			}
			inside = strings.HasPrefix(line, "## ["+title+"]")
		case strings.HasPrefix(line, "[Unreleased]: "):
			// Links end the last section.
			if inside {
				return trimmed(&text)
			}
		case inside:
			text.WriteString(line)
		}
	}
	return trimmed(&text)
}

// trimmed returns a text without empty lines around it. ok is false if nothing is left.
func trimmed(text *strings.Builder) (string, bool) {
	out := strings.TrimSpace(text.String())
	return out + "\n", out != ""
}
