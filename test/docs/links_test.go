// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading    = regexp.MustCompile("(?m)^#{1,6} (.+)$")
	fenced     = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlineCode = regexp.MustCompile("`[^`\n]+`")
)

// TestLinks checks that the targets of links to files and headings of this repository exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		text := fenced.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(text, ""), -1) {
			path, anchor, hasAnchor := strings.Cut(match[1], "#")
			if strings.Contains(path, "://") || strings.HasPrefix(path, "mailto:") {
				continue
			}
			links++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), filepath.FromSlash(path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s does not exist", page, match[1])
				continue
			}
			if hasAnchor && strings.HasSuffix(target, ".md") && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: %s: there is no such heading", page, match[1])
			}
		}
	}
	if links < 200 {
		t.Errorf("%d links in the documentation, expected 200 or more: does the test still find them?", links)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the anchors of a page's headings, as GitHub and the site create them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, match[1])
		all[anchor] = true
	}
	return all
}
