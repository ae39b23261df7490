// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import "sync"

// Changes counts the changes of a fleet, and wakes goroutines that wait for the next change. The zero value is not
// valid; use NewChanges.
type Changes struct {
	// mutex guards the other fields.
	mutex sync.Mutex
	count uint64
	next  chan struct{}
}

// NewChanges returns Changes that has counted no change.
func NewChanges() *Changes { return &Changes{next: make(chan struct{})} }

// Add counts a change.
func (c *Changes) Add() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.count++
	close(c.next)
	c.next = make(chan struct{})
}

// Last returns the number of changes, and a channel that is closed at the next change.
func (c *Changes) Last() (count uint64, next <-chan struct{}) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.count, c.next
}

// Since returns a channel that is closed when there are more changes than a number that Last returned.
func (c *Changes) Since(count uint64) <-chan struct{} {
	last, next := c.Last()
	if last == count {
		return next
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}
