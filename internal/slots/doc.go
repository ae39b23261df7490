// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slots decides which releases may act in workload clusters now. Each Helm action needs a slot: an action may
// take minutes, for example because of its hooks, and the number of workers is small. A release without a slot occupies
// no worker. It waits in a queue, and the package calls [Options.Wake] when the release gets a slot.
//
// The package runs no actions: the callers do. It uses no client and no clock.
//
// # How slots are shared
//
// Some workers never get a slot, so they can always reconcile releases. The other slots are shared twice by the same
// rule: first between namespaces, then between the HelmOps of each namespace. A holder is a namespace or a HelmOp. It
// gets at most three quarters of the slots that other holders do not use. A holder with a slot never gets the last free
// slot. So each namespace leaves slots to the others, even with many HelmOps. And a HelmOp whose hooks wait for nodes
// leaves slots to the CNI, which the nodes need. The price: these slots are idle while no other holder needs them.
//
// A free slot goes to the namespace with the fewest slots, and in this namespace to the HelmOp with the fewest. Among
// the releases of the HelmOp, releases that are not installed yet come first. After them, the longest wait decides. If
// several namespaces wait for the Cluster of this release, the namespace with the fewest slots there is first. A
// release is skipped if its Cluster, HelmOp or namespace has reached its limit. Uninstallations that wait for the
// deletion of their objects have a separate limit, which namespaces share by the same rule.
//
// # What callers must do
//
// Callers must call [Slots.Settle] at the end of each pass over a release. Settle frees a granted slot that the pass
// did not use, unless the pass called [Slots.Keep]. If the pass did not request a slot and did not call Keep, Settle
// also removes the release from the queue.
package slots
