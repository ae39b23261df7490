// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redaction hides secrets in texts for people: messages of conditions, Events and logs.
//
// # Contract
//
// [Set.Hide] replaces each secret of a Set by [Mark]
//
//   - as it is, quoted as in JSON, YAML and Go, once or twice, or escaped as in URLs;
//   - in base64, of the standard and the URL alphabet, also as a part of a longer text;
//   - with white space, quotes and backslashes anywhere in it, so split over lines, too;
//   - of a long secret, each part of 24 characters or more, so cut off, too;
//   - of less than four characters, where it stands as a word of its own.
//
// A Set that is too large to be looked for hides the whole text. A short secret within another word stays: it tells
// nothing there. What is encrypted, hashed or compressed is not found.
package redaction
