// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // The image has no time zone database, so the program embeds it.

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/netresearch/go-cron"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// minDuration and maxDuration are the limits of the API for the duration of a window.
	minDuration, maxDuration = time.Minute, 7 * 24 * time.Hour

	// maxEntries is the largest number of windows or freezes in an annotation. maxReason is the longest veto in messages,
	// in bytes.
	maxEntries, maxReason = 16, 256

	// cronFields is the number of fields of a cron expression.
	cronFields = 5
)

// expressions parses cron expressions with the syntax of crontab and of Kubernetes CronJobs, and with the n-th and the
// last weekday of a month.
var expressions = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowNth |
	cron.DowLast | cron.DomL | cron.DowOrDom)

// anyTime is the start of the search for a time when a window opens. The parser searches for five years, and these
// contain a leap day.
var anyTime = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// window is a repeated time in which changes are permitted.
type window struct {
	schedule *cron.SpecSchedule
	duration time.Duration
}

// newWindow parses the fields of a window. An empty time zone is UTC.
func newWindow(schedule string, duration time.Duration, zone string) (window, error) {
	location, err := locationOf(zone)
	if err != nil {
		return window{}, err
	}
	// The parser would also accept time zones and abbreviations.
	if fields := strings.Fields(schedule); len(fields) != cronFields {
		return window{}, fmt.Errorf("the schedule %q has %d fields; a cron expression has %d", schedule, len(fields),
			cronFields)
	}
	parsed, err := expressions.Parse(strings.TrimSpace(schedule))
	if err != nil {
		return window{}, fmt.Errorf("the schedule %q: %w", schedule, err)
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return window{}, fmt.Errorf("the schedule %q is not a cron expression", schedule)
	}
	if spec.Location = location; spec.Next(anyTime).IsZero() {
		return window{}, fmt.Errorf("the schedule %q never opens", schedule)
	}
	if duration < minDuration || duration > maxDuration {
		return window{}, fmt.Errorf("the duration %s is not between %s and %s", duration, minDuration, maxDuration)
	}
	return window{schedule: spec, duration: duration}, nil
}

// locations caches time zones, because each one takes some KiB. There are about 600 of them.
var locations, _ = lru.New[string, *time.Location](1 << 10) // fails only if the size is not positive

func locationOf(zone string) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	if known, ok := locations.Get(zone); ok {
		return known, nil
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return nil, fmt.Errorf("the time zone %q is not known; an example is Europe/Berlin", clip(zone))
	}
	locations.Add(strings.Clone(zone), location) // the name may be a part of an annotation
	return location, nil
}

// opening returns the beginning of the opening of the window at a time; zero if the window is closed at this time.
func (w window) opening(at time.Time) time.Time {
	opened := w.next(at.Add(-w.duration))
	if opened.IsZero() || opened.After(at) {
		return time.Time{}
	}
	return opened
}

// next returns the next opening after a time; zero if there is none. The schedule searches the hour of an opening by
// whole hours from midnight. If the clocks of the day change by half an hour, as on Lord Howe Island, it then overlooks
// openings in the first half of an hour. So next also searches from the first full hour after such a change.
func (w window) next(after time.Time) time.Time {
	opens := w.schedule.Next(after)
	zone := w.schedule.Location
	for from := after.Add(-time.Hour); ; {
		_, change := from.In(zone).ZoneBounds()
		if change.IsZero() || opens.IsZero() || change.After(opens) {
			return opens
		}
		if minutes := change.In(zone).Minute(); minutes != 0 {
			hour := change.Add(time.Hour - time.Duration(minutes)*time.Minute)
			if other := w.schedule.Next(hour.Add(-time.Nanosecond)); other.After(after) && other.Before(opens) {
				opens = other
			}
		}
		from = change
	}
}

func (w window) isOpen(at time.Time) bool { return !w.opening(at).IsZero() }

// freeze is a time without changes.
type freeze struct {
	from, until time.Time
	reason      string
}

func (f freeze) covers(at time.Time) bool { return !at.Before(f.from) && at.Before(f.until) }

func (f freeze) why(whose string) string {
	if f.reason == "" {
		return whose + " has a freeze"
	}
	return fmt.Sprintf("%s has a freeze (%s)", whose, clip(f.reason))
}

func clip(text string) string { return truncate.Text(text, maxReason) }

// parseEach parses entries that are separated by semicolons. It ignores empty entries.
func parseEach[T any](text string, parse func(string) (T, error)) ([]T, error) {
	var parsed []T
	for entry := range strings.SplitSeq(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		if len(parsed) == maxEntries {
			return nil, fmt.Errorf("it has more than %d entries", maxEntries)
		}
		one, err := parse(entry)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, one)
	}
	if len(parsed) == 0 && text != "" {
		return nil, errEmpty
	}
	return parsed, nil
}

// parseWindow parses an entry of the annotation maintenance-windows.
func parseWindow(entry string) (window, error) {
	fields := strings.Fields(entry)
	if len(fields) != cronFields+1 && len(fields) != cronFields+2 {
		return window{}, fmt.Errorf("%q is not five fields of cron, a duration and, optionally, a time zone; an example is "+
			"\"0 22 * * 1-5 4h Europe/Berlin\"", clip(entry))
	}
	duration, err := time.ParseDuration(fields[cronFields])
	if err != nil {
		return window{}, fmt.Errorf("%q: the duration: %w", clip(entry), err)
	}
	zone := ""
	if len(fields) > cronFields+1 {
		zone = fields[cronFields+1]
	}
	return newWindow(strings.Join(fields[:cronFields], " "), duration, zone)
}

// parseFreeze parses an entry of the annotation maintenance-freezes.
func parseFreeze(entry string) (freeze, error) {
	from, until, found := strings.Cut(entry, "/")
	if !found {
		return freeze{}, fmt.Errorf("%q is not an interval; an example is \"2026-12-20/2027-01-03\"", clip(entry))
	}
	var f freeze
	var err error
	if f.from, err = parseTime(from); err != nil {
		return freeze{}, err
	}
	if f.until, err = parseTime(until); err != nil {
		return freeze{}, err
	}
	if !f.from.Before(f.until) {
		return freeze{}, fmt.Errorf("%q ends before it begins", clip(entry))
	}
	return f, nil
}

// errTime is the error for a time that cannot be parsed.
var errTime = errors.New("is neither a time in RFC 3339 nor a date; examples are 2026-12-20T08:00:00Z and 2026-12-20")

func parseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q %w", clip(text), errTime)
}
