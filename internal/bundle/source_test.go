// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import "testing"

func TestWithoutCredential(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://me:secret@git.example/repo.git":             "https://git.example/repo.git",
		"https://ghp_secret@git.example/repo.git":            "https://git.example/repo.git",
		"https://x-access-token:se%40cr:et@git.example:8/r":  "https://git.example:8/r",
		"HTTPS://me:se@cret@git.example":                     "HTTPS://git.example",
		" http://:secret@git.example/r?a#b":                  " http://git.example/r?a#b",
		"git+https://me:secret@git.example/r":                "git+https://git.example/r",
		"git://me@git.example/r":                             "git://git.example/r",
		"ssh://git:secret@git.example:22/r":                  "ssh://git@git.example:22/r",
		"git+ssh://git:secret@git.example/r":                 "git+ssh://git@git.example/r",
		"https://a:secret@one.example https://b@two.example": "https://one.example https://two.example",
		// Texts without credentials stay unchanged.
		"":                               "",
		"git@git.example:team/repo.git":  "git@git.example:team/repo.git",
		"ssh://git@git.example/r":        "ssh://git@git.example/r",
		"git+ssh://git@git.example/r":    "git+ssh://git@git.example/r",
		"https://git.example/@scope/a":   "https://git.example/@scope/a",
		"https://git.example?at=me@here": "https://git.example?at=me@here",
		"https://git.example#me@here":    "https://git.example#me@here",
		"file:///home/me@here/repo":      "file:///home/me@here/repo",
		"../repo@2":                      "../repo@2",
	} {
		got, had := WithoutCredential(text)
		if got != want || had != (text != want) {
			t.Errorf("%q: %q, %t, want %q", text, got, had, want)
		}
	}
}
