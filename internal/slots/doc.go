// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package slots decides which releases may act in workload clusters now. A Helm action may take minutes, because hooks do, and the
// number of workers is small: so each action needs a slot. The package knows no client and no clock.
//
// A release that finds no slot holds no worker: it waits in a queue, and [Options.Wake] is called when a slot is granted to it.
//
// # How slots are shared
//
// Some workers never act, so that somebody always looks at releases. The other slots are shared twice, by the same rule: first between
// namespaces, then between the HelmOps of each namespace. A holder has at most three quarters of what the others leave, and it never takes the
// last free slot if it holds one already. So one namespace, with any number of HelmOps, leaves slots to all others, and a HelmOp
// whose hooks wait for nodes leaves slots to the CNI that brings the nodes. The price is that these slots are idle while nobody else needs them.
//
// A free slot is granted to the namespace that holds the fewest, there to the HelmOp that holds the fewest, there to a release that is not
// installed yet, there to the one that has waited for the longest. A release whose Cluster, HelmOp or namespace has all that it may have is passed
// over. Uninstallations that wait until their objects are gone have a bound of their own, which namespaces share by the same rule.
//
// # What the caller owes
//
// [Slots.Settle] is called at the end of each pass over a release, whether the pass asked for a slot or not. A release that did not ask
// for a slot, and for which [Slots.Keep] was not called, loses its place in the queue or the slot that was granted to it.
package slots
