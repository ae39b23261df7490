// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs work that may need any amount of memory or time in child processes of the same program, each
// with limits. It does not depend on the kind of work: a task has a name, and its input and output are bytes.
//
// # Contract
//
//   - A program that uses a [Pool] calls [Serve] before anything else. In a child, Serve never returns.
//   - A child has limits for address space, CPU time and output, see [Limits]. The parent kills a child when its time
//     is over, or when the context of the request ends. Work that terminates a child never terminates the parent: the
//     request fails with a [*LimitError], which has the last note of the child.
//   - A child has an empty environment, no file descriptors but its pipes, and no way to write files. It ends with its
//     parent.
//   - A child serves many requests, one after the other. It ends after some seconds without a request, or when it keeps
//     much memory.
//   - On Linux, a child has a lower priority than its parent. A child whose request has used a second of CPU time gets
//     a still lower one, so that short requests of others are not slowed. It ends with that request, because a process
//     cannot raise its priority again.
//   - Data that many requests share, for example a chart, is sent to a child once and decoded once, see [Shared].
//   - If several tenants wait, the tenant with the fewest running requests is next. One child is reserved for tenants
//     without a running request.
//   - The limits apply on Linux. On other systems, a child is killed when its time is over, and there are no other
//     limits.
package sandbox
