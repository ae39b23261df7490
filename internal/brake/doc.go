// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package brake decides whether deletions that follow from another change may begin. Such a change is, for example, a
// typo in a selector, labels that a tool removes, or a folder that is missing in an artifact. A few deletions begin at
// once. Larger numbers wait until a user confirms them.
//
// It consists of pure functions. The caller stores State before it begins the deletions that a Decision allows. A
// manager that restarts therefore counts the deletions that began before.
//
// # What counts together
//
// Deletions count together if each begins less than Window after the previous one. Labels that are removed one by one
// are one loss. Objects that return meanwhile no longer count: a release that two owners hand over to each other
// repeatedly counts once at most.
//
// # What ends the wait
//
// Waiting deletions never begin by themselves. Otherwise the last of thirty labels would cost its release while a tool
// restores the labels one by one. The wait ends if no deletion is pending any more, if the limit is raised to
// MostWaiting, or by the confirmation. A confirmation contains the number and a digest of the waiting objects and of
// the start of the wait. It therefore does not confirm a larger or later loss, and an old annotation confirms nothing.
package brake
