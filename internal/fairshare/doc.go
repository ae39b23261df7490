// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairshare shares a number of slots between holders, for example tenants, so that no holder can take all
// slots.
//
// [Pool] counts the slots of each holder and decides whether a holder may take one more. A holder gets at most three
// quarters of the slots that the other holders do not have. It never gets the last free slot if it already has a slot.
// So a new holder always finds a free slot, even if another holder requests many. The cost of this rule: some slots are
// idle while no other holder needs them.
//
// [Queue] is the queue of items that wait for a slot. It serves holders alternately, regardless of how many items they
// have. A holder that had no items for some time is not preferred later. Priorities order the items of one holder.
// [Queue] implements start-time fair queuing with items of equal size.
//
// Both types use no clock. They are not safe for concurrent use: the caller must lock.
package fairshare
