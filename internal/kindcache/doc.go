/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package kindcache reads objects of kinds that are named at run time: those that Clusters refer to. Reads come from a cache of
// controller-runtime, which has one informer for each kind.
//
// Whoever may create a Cluster names the kinds. So the package bounds what a kind can cost:
//
//   - No caller waits for a kind. The first read of a kind begins its informer in the background and waits for half a second at most, and only
//     one caller of a namespace waits at a time. Then the read fails with ErrPending until the kind is known.
//   - Before an informer begins, the API server is asked whether the manager may list and watch the kind. A refusal is remembered for a
//     minute. An informer that is not synced in time ends.
//   - The number of kinds is bounded, and namespaces share it: one namespace cannot use it up.
//   - An informer that nobody has read for Options.Idle ends, with the watches of the controllers. The next read begins it again.
//
// # What the caller owes
//
// A caller that gets ErrPending comes back: nothing tells when the kind is known. A controller that needs the events of a kind calls
// [Watcher.Watch] after each read, which costs nothing when the kind is watched already.
package kindcache
