// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairshare shares a number of places between holders, tenants for example, so that none of them can take all.
//
// [Pool] counts who holds places and says who may have one more. A holder has at most three quarters of what the others
// leave, and never takes the last free place if it holds one already. So whoever comes later finds a place, however
// many the first holder asks for. The price is that these places are idle while nobody else needs them.
//
// [Queue] keeps the order of those who wait for a place: holders take turns, whoever asks for more, and one that was
// away for a while has no more turns than the others when it is back. It is start-time fair queuing with items of one
// size.
//
// Neither knows a clock or is safe for concurrent use: the caller locks.
package fairshare
