// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package brake decides whether deletions that follow from another change may begin: a selector with a typo, labels
// that a tool prunes or a folder that is lost from an artifact. A few deletions begin at once. More of them wait until
// a user confirms them.
//
// It consists of pure functions. The caller keeps State, and writes it before it begins the deletions that a Decision
// allows. A manager that is restarted then counts what began before.
//
// # What counts together
//
// Deletions count together if each begins less than Window after the one before. Labels that are pruned one by one are
// one loss. What comes back meanwhile is no loss any more: a release that two owners hand over to each other again and
// again is lost once at most.
//
// # What ends the wait
//
// Deletions that wait never begin by themselves. Otherwise the last of thirty labels would cost its release while a
// tool puts the labels back one by one. The wait ends if nothing is to be deleted any more, if the limit is raised to
// what waited at the same time at most, or by the confirmation. A confirmation names the number and a digest of what
// waits and of since when it waits. It therefore confirms neither a larger loss nor a later one, and an annotation that
// stays behind confirms nothing.
package brake
