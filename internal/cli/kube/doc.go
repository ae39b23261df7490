// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube has what the commands that use a management cluster share: kubectl's flags, a client, completion of
// names, errors in plain words, tables and pages.
//
// # Contract
//
//   - A client needs no discovery: it knows the kinds of HelmOp, Clusters, Events and namespaces.
//   - Errors that a user sees go through Explain, or have a text of their own by WithText.
//   - Output goes to the streams of Base, which write the escape sequences of terminals as text.
package kube
