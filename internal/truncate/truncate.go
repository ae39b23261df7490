// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package truncate limits the length of texts for messages and status fields. It does not remove secrets. Callers must
// remove secrets before, because a part of a secret may not be recognized.
package truncate

import "strings"

const ellipsis = "…"

// Text returns a text of at most limit bytes. A longer text is cut between two characters, and ends with an ellipsis of
// three bytes. Invalid UTF-8 is removed. limit must be at least three.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(ellipsis)], "") + ellipsis
}
