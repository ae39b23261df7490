// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import "regexp"

// fieldName matches the keys that a chart defines. Their only characters are letters, separators and at most two
// digits. To hide these keys would make messages and previews unreadable: most are words such as "image".
var fieldName = regexp.MustCompile(`^[A-Za-z_./-]*(?:[0-9][A-Za-z_./-]*){0,2}$`)

// AppendKeys appends the keys of maps, at any depth, that may be secret: an e-mail address, a token, an account.
func AppendKeys(keys []any, value any) []any {
	switch typed := value.(type) {
	case map[string]any:
		for key, child := range typed {
			if !fieldName.MatchString(key) {
				keys = append(keys, key)
			}
			keys = AppendKeys(keys, child)
		}
	case []any:
		for _, child := range typed {
			keys = AppendKeys(keys, child)
		}
	}
	return keys
}
