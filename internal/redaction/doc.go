// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redaction hides secrets in texts for users: messages of conditions, Events and logs.
//
// # Contract
//
// [Set.Hide] replaces each secret of a Set by [Mark]
//
//   - as it is, quoted as in JSON, YAML and Go, once or twice, or escaped as in URLs;
//   - in base64, of the standard and the URL alphabet, also as a part of a longer text;
//   - with white space, quotes and backslashes at any place, also split over lines;
//   - for a long secret, in each part of 24 characters or more, also if it is cut off;
//   - for a secret of less than four characters, only as a separate word.
//
// If a Set is too large to search for, the whole text is hidden. A short secret within another word
// is not hidden, because it reveals nothing there. Encrypted, hashed or compressed secrets are not
// found.
package redaction
