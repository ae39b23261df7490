// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package brake decides whether deletions may begin that are a consequence of another change. Such a change is, for
// example, a typo in a selector, the removal of labels by a tool, or a missing folder in an artifact. A few deletions
// begin at once. A larger number waits until a user confirms the deletions.
//
// The package consists of pure functions. It deletes nothing and stores nothing. Before the caller begins the deletions
// that a Decision allows, it must store the State of the Decision. So a manager that restarts counts the deletions that
// began before.
//
// # What counts together
//
// Deletions count as one loss if each begins less than Window after the previous one. So labels that a tool removes one
// by one are one loss. Objects that return meanwhile no longer count. So a release that two owners repeatedly take over
// from each other counts at most once.
//
// # What ends the wait
//
// Waiting deletions never begin by themselves. Otherwise, a wait that ends by itself could delete the last of thirty
// releases while a tool restores their labels one by one. The wait ends if no deletion is pending any more, if a user
// raises the limit to MostLost, or with the confirmation. During the wait, the limit is for the number of objects at
// its start: objects that are added or deleted do not change it. A confirmation contains the number of the waiting
// objects, and a digest of these objects and of the start of the wait. So it does not confirm a larger or later loss,
// and an old annotation confirms nothing.
//
// The deletions that a confirmation permits may begin hours later. So the caller marks each of these objects, and
// removes the mark when the object shall stay. The mark, and not a number, shows which deletions are confirmed.
package brake
