// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redaction hides secrets in texts for users: messages of conditions, Events and logs.
//
// # Contract
//
// [Hide] replaces each secret of a [Set] with [Mark]. It finds a secret
//
//   - unchanged, quoted once or twice as in JSON, YAML and Go, or escaped as in URLs;
//   - in base64, in the standard and the URL alphabet, also within a longer text;
//   - with inserted white space, quotes and backslashes, also split over lines;
//   - in parts, if the secret is long: each part of 24 characters or more, also if the secret is cut off;
//   - as a separate word only, if it has less than four characters.
//
// If a search would take too much time or memory, Hide hides the whole text. It does not hide a short secret within
// another word, because it reveals nothing there. It does not find encrypted, hashed or compressed secrets. Callers
// pass texts through Hide before they show them.
package redaction
