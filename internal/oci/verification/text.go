// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxText bounds untrusted names and reasons in messages, in bytes.
	maxText = 200
	// maxSigner bounds the name of a signer, in bytes. The URI of a workflow may be long.
	maxSigner = 400
)

// clip makes untrusted text safe to show: the result is one printable line of limited length.
func clip(text string) string { return clipTo(text, maxText) }

func clipTo(text string, limit int) string {
	return truncate.Text(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' {
			return ' '
		}
		if !strconv.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?")), limit)
}
