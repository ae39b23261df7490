// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"io"
	"strings"
)

// maxPassword is the maximum size of a password, in bytes.
const maxPassword = 64 << 10

// ReadPassword reads a password. The password is the whole input without the last line break.
func ReadPassword(in io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPassword))
	return strings.TrimRight(string(data), "\r\n"), err
}
