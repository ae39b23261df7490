// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catalogue tests that the documentation has an entry for each name that users see. It also tests that the
// documentation, the CustomResourceDefinitions, and the comments and messages of the program and of its tests are
// written in plain English. The names come from the source code, not from lists.
package catalogue
