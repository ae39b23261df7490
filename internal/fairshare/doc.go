// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairshare shares a number of slots between holders, for example tenants, so that no holder can take all
// slots.
//
// [Pool] counts the slots of each holder and decides whether a holder may take one more. A holder gets at most three
// quarters of the slots that the others leave. It never takes the last free slot if it holds one already. So a later
// holder always finds a slot, even if the first holder requests many. The price is that some slots are idle while no
// other holder needs them.
//
// [Queue] is the queue of items that wait for a slot. Holders are served alternately, regardless of how many items they
// have. A holder without items for a while gets no extra service later. The items of one holder have priorities. It
// implements start-time fair queuing with items of equal size.
//
// Both types use no clock. They are not safe for concurrent use: the caller must lock.
package fairshare
