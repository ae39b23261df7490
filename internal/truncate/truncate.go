// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package truncate bounds texts that go into messages and status fields.
package truncate

import "strings"

const ellipsis = "…"

// Text returns a text of at most limit bytes. A longer text is cut between two characters, loses what is not UTF-8, and
// ends with an ellipsis of three bytes, which is the least limit.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
