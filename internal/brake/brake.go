// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package brake

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Window is the longest time between two deletions of the same loss.
const Window = 10 * time.Minute

const (
	// defaultPercent and defaultCount define the default limit. The larger of both applies.
	defaultPercent = 25
	defaultCount   = 3
)

// Limit returns how many of total objects may be deleted at once without a confirmation. The value is a number or a
// percentage. A percentage is rounded down, but the result is at least 1. Without a value, the limit is the larger of
// 25 % and 3. With 100 % no deletion waits.
func Limit(value *intstr.IntOrString, total int) int {
	switch {
	case value == nil:
		return max(total*defaultPercent/100, defaultCount)
	case value.Type == intstr.Int:
		return value.IntValue()
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil {
		return 0
	}
	return max(1, total*percent/100)
}

// fleetLimit returns the limit for the releases of a HelmOp. Without a value, HelmOp never deletes all releases at once
// if there is more than one: a typo in a selector unselects all Clusters, and in a small fleet these are at most 3.
func fleetLimit(value *intstr.IntOrString, total int) int {
	limit := Limit(value, total)
	if value == nil && total > 1 {
		limit = min(limit, total-1)
	}
	return limit
}

// State is the state that is stored between two decisions. The zero value means that there were no deletions.
type State struct {
	// Recent is the number of deletions that began without a confirmation, each less than Window after the previous one,
	// or while others wait. LastAt is when the last of them began.
	Recent int
	LastAt time.Time

	// WaitingSince is when deletions began to wait, in whole seconds; zero if none waits. MostLost is the highest number
	// of objects in this loss since then: Recent, and the unconfirmed deletions that wait. WaitingTotal is the number of
	// objects to which the limit applied at WaitingSince.
	WaitingSince time.Time
	MostLost     int
	WaitingTotal int
}

// Input is the input of a decision.
type Input struct {
	State State

	// Pending are the names of the objects whose deletion has not begun. Confirmed is the number of these objects with
	// the mark of a confirmed deletion. Total is the number of all objects that are not under deletion, including the
	// objects in Pending.
	Pending   []string
	Confirmed int
	Total     int

	// Blocked is the number of the objects in Total, without the confirmed ones, that cannot be deleted now.
	// BlockedPending is the number of these objects in Pending: their deletion begins when it is possible again.
	Blocked, BlockedPending int

	// Max is the limit, see Limit.
	Max *intstr.IntOrString

	// Confirmation is the confirmation that a user has set, see the function Confirmation.
	Confirmation string

	Now time.Time
}

// Decision says whether deletions may begin.
type Decision struct {
	// Held is true if no deletion may begin.
	Held bool

	// Total is the number of objects to which the limit applies: the objects in Input, and those already deleted in the
	// same loss.
	Total int

	// Lost is the number of objects that would be deleted in this loss. Limit is how many objects may be deleted without a
	// confirmation. While deletions wait, it is the limit for the number of objects at the start of the wait.
	Lost, Limit int

	// Confirmation is the value that confirms the waiting deletions; empty if none waits.
	Confirmation string

	// JustConfirmed is true if the confirmation ended the wait with this decision. The caller must then mark each
	// pending object as confirmed, before it stores State.
	JustConfirmed bool

	// State is the new state. It must be stored before any deletion begins.
	State State
}

// Decide decides whether deletions may begin. A wait ends if the deletions are confirmed, if none waits any more, or if
// a user raises the limit. It does not end because the number of objects changes.
//
// The limit applies twice: to the deletions that could begin now, with the number of the objects that could be deleted
// now, and to all deletions, with the number of all objects. Confirmed deletions do not count, and do not raise the
// limit.
func Decide(in Input) Decision {
	s := in.State.Current(in.Now)
	pending := len(in.Pending)
	unconfirmed := pending - in.Confirmed
	all := in.Total - in.Confirmed + s.Recent
	base := all
	if able := all - in.Blocked; s.Recent+unconfirmed-in.BlockedPending > fleetLimit(in.Max, able) {
		base = able
	}
	d := Decision{Total: in.Total + s.Recent, Limit: fleetLimit(in.Max, cmp.Or(s.WaitingTotal, base))}
	if pending == 0 {
		d.State = s.endWait()
		return d
	}
	waited := !s.WaitingSince.IsZero()
	if waited && in.Confirmation == Confirmation(s.WaitingSince, in.Pending) {
		d.State, d.JustConfirmed = s.endWait(), true
		return d
	}
	d.Lost = max(s.Recent+unconfirmed, s.MostLost)
	isLimitKnown := !waited || s.WaitingTotal > 0 // an earlier version of HelmOp did not store it
	if unconfirmed == 0 || isLimitKnown && d.Lost <= d.Limit {
		d.State = s.endWait()
		return d
	}
	if !waited {
		s.WaitingSince, s.WaitingTotal = in.Now.Truncate(time.Second), base
	}
	s.MostLost, d.Lost = d.Lost, s.Recent+pending
	d.Held, d.Confirmation, d.State = true, Confirmation(s.WaitingSince, in.Pending), s
	return d
}

// Current returns the state at a time. Deletions that began long ago no longer count, unless others wait: these belong
// to the same loss, and would otherwise begin by themselves. If LastAt is in the future, because the clock of a former
// manager was ahead, it becomes now: the deletions would otherwise count longer by the difference.
func (s State) Current(now time.Time) State {
	if s.LastAt.After(now) {
		s.LastAt = now
	}
	if s.WaitingSince.IsZero() && now.Sub(s.LastAt) >= Window {
		s.Recent, s.LastAt = 0, time.Time{}
	}
	return s
}

// endWait returns the state after the end of a wait.
func (s State) endWait() State {
	s.WaitingSince, s.MostLost, s.WaitingTotal = time.Time{}, 0, 0
	return s
}

// Begin returns the state after a number of unconfirmed deletions began.
func (s State) Begin(unconfirmed int, now time.Time) State {
	if unconfirmed > 0 {
		s.Recent += unconfirmed
		s.LastAt = now
	}
	return s
}

// Return returns the state after count objects were restored, for example by a label. They no longer count as lost.
func (s State) Return(count int) State {
	s.Recent = max(0, s.Recent-count)
	if s.Recent == 0 {
		s.LastAt = time.Time{}
	}
	return s
}

// digestLength is the length of the digest in a confirmation, in hexadecimal digits.
const digestLength = 12

// Confirmation returns the value that confirms the deletion of these objects, which wait since the given time: their
// number and a digest, for example "12-5e8d1f0a9b3c". The order of the names does not matter.
func Confirmation(since time.Time, names []string) string {
	return confirmation(strconv.FormatInt(since.Unix(), 10), names)
}

// confirmation returns the value that confirms the deletion of objects on an occasion. The same deletion on another
// occasion has another value.
func confirmation(occasion string, names []string) string {
	hash := sha256.New()
	for _, line := range append([]string{occasion}, slices.Sorted(slices.Values(names))...) {
		fmt.Fprintln(hash, line)
	}
	return fmt.Sprintf("%d-%s", len(names), hex.EncodeToString(hash.Sum(nil))[:digestLength])
}
