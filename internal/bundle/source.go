// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"regexp"
	"strings"
)

// userinfo matches the user and the password in a URL. A password may contain any character that does not end the host.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\s]*)@`)

// WithoutCredential returns a text without the credentials in its URLs. had is true if the text had credentials. For
// example, "git remote get-url" returns the token that a pipeline clones with. WithoutCredential keeps the user of an
// SSH URL, because this user is not a secret. git@host:path is not a URL.
func WithoutCredential(text string) (clean string, had bool) {
	clean = userinfo.ReplaceAllStringFunc(text, func(found string) string {
		parts := userinfo.FindStringSubmatch(found)
		user := ""
		if scheme := strings.ToLower(parts[1]); scheme == "ssh" || strings.HasSuffix(scheme, "+ssh") ||
			strings.HasPrefix(scheme, "ssh+") {
			user, _, _ = strings.Cut(parts[2], ":")
		}
		if user != "" {
			user += "@"
		}
		return parts[1] + "://" + user
	})
	return clean, clean != text
}
