// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "strconv"

// ActionOf returns the action of one of the Events that a pass may record with the same reason and for the same object.
// index is the number of the Event, from 0. If Events about the same version of an object have the same reason and
// action, client-go counts them as repetitions of the first one, and drops their messages.
func ActionOf(action string, index int) string {
	if index == 0 {
		return action
	}
	return action + strconv.Itoa(index+1)
}
