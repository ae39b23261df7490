// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"regexp"
	"strings"
)

// userinfo is what stands before the host of a URL. A password may hold anything but what ends the host.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s]*)@`)

// WithoutCredential is a text without the credentials in its URLs, and whether there were any. "git remote get-url" tells the token that a
// pipeline clones with. Nothing is left before the host but the user of SSH, whose key is elsewhere; git@host:path is no URL.
func WithoutCredential(text string) (clean string, had bool) {
	clean = userinfo.ReplaceAllStringFunc(text, func(found string) string {
		parts := userinfo.FindStringSubmatch(found)
		user := ""
		if scheme := strings.ToLower(parts[1]); scheme == "ssh" || strings.HasSuffix(scheme, "+ssh") || strings.HasPrefix(scheme, "ssh+") {
			user, _, _ = strings.Cut(parts[2], ":")
		}
		if user != "" {
			user += "@"
		}
		return parts[1] + "://" + user
	})
	return clean, clean != text
}
