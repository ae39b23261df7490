// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs work in child processes of the same program. Each child has limits, because the work may need
// any amount of memory or time. The package does not depend on the kind of work: a task has a name, and its input and
// output are bytes.
//
// # Contract
//
//   - A program that uses a [Pool] must call [Serve] before anything else. In a child, Serve never returns.
//   - A child has limits for address space, CPU time and output, see [Limits]. The parent kills a child after its time
//     limit, or when the context of the request ends. Work that terminates a child never terminates the parent: the
//     request fails with a [*LimitError], which contains the last note of the child.
//   - A large output waits for memory, see [Options.Reserve]. This wait does not count against the time limit. If no
//     memory becomes free before the context ends, the parent kills the child, and the error is [ErrNoMemory] and not a
//     [*LimitError].
//   - A child has an empty environment, no open files except its pipes, and no way to write files. It ends with its
//     parent.
//   - A child serves many requests, one after the other. It ends after some seconds without a request, or when it keeps
//     too much memory.
//   - On Linux, a child has a lower priority than its parent. If a request uses more than a second of CPU time, the
//     priority is lowered again, so that short requests of others are not delayed. The child ends with this request,
//     because a process cannot raise its priority again.
//   - Data that many requests share, for example a chart, is sent to a child only once and decoded only once, see
//     [Shared].
//   - If several tenants wait, the tenant with the fewest running requests is served next. Tenants with equally many
//     are served alternately, regardless of how many requests wait. One child is reserved for tenants without a running
//     request.
//   - The limits apply on Linux. On other systems, a child is only killed after its time limit.
package sandbox
