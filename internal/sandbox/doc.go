// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs work that may take any amount of memory or time in child processes of the same program, each
// with limits. It does not know what the work is: a task has a name, and its input and output are bytes.
//
// # Contract
//
//   - A program that uses a [Pool] calls [Serve] before anything else. In a child, Serve never returns.
//   - A child has limits of address space, CPU time and output, see [Limits]. The parent kills it when its time is
//     over, or when the context of the request ends. Work that ends a child never ends the parent: the request fails
//     with a [*LimitError], which says what the child did last.
//   - A child has an empty environment, no file descriptors but its pipes, and no way to write files. It ends with its
//     parent.
//   - A child serves many requests, one after the other. It ends after some seconds without a request, or when it keeps
//     much memory.
//   - Data that many requests share, for example a chart, is sent to a child once and decoded once, see [Shared].
//   - Of several tenants that wait, the tenant with the fewest requests under way is next. One child is left for a
//     tenant that has no request under way.
//   - The limits hold on Linux. Elsewhere, a child is killed when its time is over, and nothing else bounds it.
package sandbox
