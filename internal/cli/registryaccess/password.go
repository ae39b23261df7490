// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"io"
	"strings"
)

// maxPassword is the largest password that is read, in bytes.
const maxPassword = 64 << 10

// ReadPassword reads a password, which is the whole input except for the last line break.
func ReadPassword(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPassword))
	return strings.TrimRight(string(data), "\r\n"), err
}
