// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube has what the commands for a management cluster share: kubectl's flags, a client, completion of names,
// errors in plain words, tables and pages. It has no commands of its own.
//
// # Contract
//
//   - A client needs no discovery: it contains the kinds of HelmOp, Clusters, Events and namespaces.
//   - Callers must pass each error that a user sees through Explain, or give it a text with WithText.
//   - Callers must write output to the streams of Base. These print escape sequences of terminals as text.
package kube
