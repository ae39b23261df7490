// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// limits returns the limits of annotations in the form "windows | freezes | veto". An empty text and "-" mean that
// there is no annotation.
func limits(text string) Limits {
	annotations := map[string]string{}
	fields := strings.Split(text, "|")
	for i, name := range []string{addonsv1.MaintenanceWindowsAnnotation, addonsv1.MaintenanceFreezesAnnotation,
		addonsv1.MaintenanceVetoAnnotation} {
		if i < len(fields) && fields[i] != "" && strings.TrimSpace(fields[i]) != "-" {
			annotations[name] = fields[i]
		}
	}
	return PolicyOf(nil).For(annotations)
}

func TestAt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		limits, now string
		// opens is when changes are permitted again; empty if they are permitted now, and "-" if it is not known.
		opens string
		why   string
	}{
		"no limits":            {"", "2026-11-26T12:00:00Z", "", ""},
		"nothing but spaces":   {" ; | | ", "2026-11-26T12:00:00Z", "-", "it is empty"},
		"an empty veto":        {"-|-| ", "2026-11-26T12:00:00Z", "-", "a veto: without a reason"},
		"in the window":        {"0 22 * * * 4h", "2026-11-26T23:00:00Z", "", ""},
		"after midnight":       {"0 22 * * * 4h", "2026-11-27T01:59:59Z", "", ""},
		"at the opening":       {"0 22 * * * 4h", "2026-11-26T22:00:00Z", "", ""},
		"at the end":           {"0 22 * * * 4h", "2026-11-27T02:00:00Z", "2026-11-27T22:00:00Z", "closed"},
		"before the window":    {"0 22 * * * 4h", "2026-11-26T12:00:00Z", "2026-11-26T22:00:00Z", "closed"},
		"time zone":            {"0 22 * * * 4h Europe/Berlin", "2026-11-26T12:00:00Z", "2026-11-26T21:00:00Z", "closed"},
		"weekend only":         {"0 0 * * 6 48h", "2026-11-26T12:00:00Z", "2026-11-28T00:00:00Z", "closed"},
		"several windows":      {"0 22 * * * 4h; 0 13 * * * 1h", "2026-11-26T12:00:00Z", "2026-11-26T13:00:00Z", "closed"},
		"day of month or week": {"0 0 1 * 5 1h", "2026-11-26T12:00:00Z", "2026-11-27T00:00:00Z", "closed"},
		"second Friday":        {"0 0 * * 5#2 1h", "2026-11-26T12:00:00Z", "2026-12-11T00:00:00Z", "closed"},
		"last Friday":          {"0 0 * * 5#L 1h", "2026-11-26T12:00:00Z", "2026-11-27T00:00:00Z", "closed"},
		"last day of a month":  {"0 0 L * * 1h", "2026-11-26T12:00:00Z", "2026-11-30T00:00:00Z", "closed"},
		"a leap day":           {"0 0 29 2 * 1h", "2026-11-26T12:00:00Z", "2028-02-29T00:00:00Z", "closed"},
		"never":                {"0 0 30 2 * 1h", "2026-11-26T12:00:00Z", "-", "never opens"},

		"freeze":                 {"|2026-12-20/2027-01-03", "2026-12-24T12:00:00Z", "2027-01-03T00:00:00Z", "freeze"},
		"before the freeze":      {"|2026-12-20/2027-01-03", "2026-12-19T23:59:59Z", "", ""},
		"at the end of a freeze": {"|2026-12-20/2027-01-03", "2027-01-03T00:00:00Z", "", ""},
		"freeze over windows": {"0 22 * * * 4h|2026-12-20/2027-01-03", "2026-12-24T12:00:00Z", "2027-01-03T00:00:00Z",
			"freeze"},
		"window over freeze": {"0 22 * * * 4h|2026-12-20T22:30:00Z/2026-12-21T12:00:00Z", "2026-12-20T12:00:00Z",
			"2026-12-20T22:00:00Z", "closed"},
		"adjacent freezes": {"|2026-12-20/2026-12-21;2026-12-21/2026-12-22", "2026-12-20T12:00:00Z",
			"2026-12-22T00:00:00Z", "freeze"},

		"veto":           {"||not now", "2026-11-26T12:00:00Z", "-", "the Cluster has a veto: not now"},
		"veto in window": {"0 22 * * * 4h||not now", "2026-11-26T23:00:00Z", "-", "veto"},

		"fields are missing":  {"22 * * * 4h", "2026-11-26T23:00:00Z", "-", "five fields of cron"},
		"no cron expression":  {"61 22 * * * 4h", "2026-11-26T23:00:00Z", "-", "the schedule"},
		"unknown zone":        {"0 22 * * * 4h Berlin", "2026-11-26T23:00:00Z", "-", "time zone \"Berlin\" is not known"},
		"zone of the process": {"0 22 * * * 4h Local", "2026-11-26T23:00:00Z", "-", "time zone \"Local\" is not known"},
		"zone in the fields":  {"TZ=UTC 22 * * * 4h", "2026-11-26T23:00:00Z", "-", "maintenance-windows"},
		"abbreviation":        {"@daily * * * * 4h", "2026-11-26T23:00:00Z", "-", "maintenance-windows"},
		"no duration":         {"0 22 * * * long", "2026-11-26T23:00:00Z", "-", "the duration"},
		"too short":           {"0 22 * * * 30s", "2026-11-26T23:00:00Z", "-", "is not between"},
		"too long":            {"0 22 * * * 200h", "2026-11-26T23:00:00Z", "-", "is not between"},
		"negative":            {"0 22 * * * -4h", "2026-11-26T23:00:00Z", "-", "is not between"},
		"no interval":         {"|2026-12-20", "2026-11-26T23:00:00Z", "-", "is not an interval"},
		"no time":             {"|2026-12-20/soon", "2026-11-26T23:00:00Z", "-", "RFC 3339"},
		"backwards":           {"|2026-12-20/2026-12-19", "2026-11-26T23:00:00Z", "-", "ends before it begins"},
		"too many": {strings.Repeat("0 22 * * * 4h;", maxEntries+1), "2026-11-26T23:00:00Z", "-",
			"more than 16 entries"},

		// In Berlin, 02:00 becomes 03:00 on 2026-03-29, and 03:00 becomes 02:00 on 2026-10-25.
		"skipped hour": {"30 2 * * * 1h Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z", "closed"},
		"repeated hour": {"30 2 * * * 10m Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z",
			"closed"},
		"again in the repeated hour": {"30 2 * * * 10m Europe/Berlin", "2026-10-25T00:40:00Z", "2026-10-25T01:30:00Z",
			"closed"},
		// On Lord Howe Island, 02:00 becomes 02:30 on 2026-10-04, and 02:00 becomes 01:30 on 2026-04-05.
		"before a change by half an hour": {"15 5 * * 0 60m Australia/Lord_Howe", "2026-10-03T12:00:00Z",
			"2026-10-03T18:15:00Z", "closed"},
		"right after a change by half an hour": {"15 5 * * 0 60m Australia/Lord_Howe", "2026-10-03T15:40:00Z",
			"2026-10-03T18:15:00Z", "closed"},
		"on the day of a change by half an hour": {"15 5 * * 0 60m Australia/Lord_Howe", "2026-10-03T18:15:00Z", "", ""},
		"before a change back by half an hour": {"15 2 * * 0 60m Australia/Lord_Howe", "2026-04-04T12:00:00Z",
			"2026-04-04T15:45:00Z", "closed"},
		"duration is real time": {"0 22 * * 6 8h Europe/Berlin", "2026-03-29T04:59:59Z", "", ""},
		"it ends in real time":  {"0 22 * * 6 8h Europe/Berlin", "2026-03-29T05:00:00Z", "2026-04-04T20:00:00Z", "closed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := limits(test.limits).At(at(t, test.now))
			if got.Closed != (test.opens != "") || !strings.Contains(got.Why, test.why) {
				t.Fatalf("got %+v", got)
			}
			switch {
			case test.opens == "" || test.opens == "-":
				if !got.Opens.IsZero() {
					t.Errorf("got %+v", got)
				}
			case !got.Opens.Equal(at(t, test.opens)) || !strings.Contains(got.Why, " until "+test.opens):
				t.Errorf("opens at %s: %s", got.Opens.UTC(), got.Why)
			}
		})
	}
}

// TestBothAuthors checks the limits of a HelmOp together with the limits of a Cluster.
func TestBothAuthors(t *testing.T) {
	t.Parallel()
	cluster := map[string]string{addonsv1.MaintenanceWindowsAnnotation: "0 0 * * 6 24h"}
	spec := &addonsv1.Maintenance{Windows: []addonsv1.MaintenanceWindow{
		{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: 4 * time.Hour}}}}
	thursday := at(t, "2026-11-26T12:00:00Z")
	if got := PolicyOf(spec).For(cluster).At(thursday); !got.Opens.Equal(at(t, "2026-11-28T00:00:00Z")) {
		t.Errorf("got %+v", got)
	}
	if got := PolicyOf(spec).For(cluster).At(at(t, "2026-11-28T01:00:00Z")); got.Closed {
		t.Errorf("got %+v", got)
	}
	spec.Windows[0].Schedule = "0 10 * * 1"
	never := PolicyOf(spec).For(cluster).At(thursday)
	if !never.Closed || !never.Opens.IsZero() ||
		!strings.Contains(never.Why, "HelmOp found no time that all limits allow") {
		t.Errorf("got %+v", never)
	}
	spec.ClusterLimits = addonsv1.ClusterLimitsIgnored
	if got := PolicyOf(spec).For(cluster).At(thursday); !got.Opens.Equal(at(t, "2026-11-30T10:00:00Z")) {
		t.Errorf("got %+v", got)
	}
	spec.Windows[0].TimeZone = "Mars/Olympus"
	if why := PolicyOf(spec).Invalid(); !strings.Contains(why, "spec.maintenance.windows[0]: the time zone") {
		t.Error(why)
	}
	if PolicyOf(spec).For(cluster).Covers(addonsv1.MaintenanceRollback) {
		t.Error("a rollback waits")
	}
	spec.Includes = []addonsv1.MaintenanceScope{addonsv1.MaintenanceRollback}
	if !PolicyOf(spec).For(cluster).Covers(addonsv1.MaintenanceRollback) {
		t.Error("a rollback does not wait")
	}
}

// randomLimits returns the text of random limits. They repeat at least once a week.
func randomLimits(r *rand.Rand, begin time.Time) string {
	zones := []string{"", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
		"Pacific/Apia"}
	var windows, freezes []string
	for range 1 + r.IntN(3) {
		windows = append(windows, fmt.Sprintf("%d %d * * %d %dm %s", r.IntN(60), r.IntN(24), r.IntN(7), 1+r.IntN(1800),
			zones[r.IntN(len(zones))]))
	}
	for range r.IntN(3) {
		from := begin.Add(time.Duration(r.IntN(20*24)) * time.Hour)
		freezes = append(freezes, from.Format(time.RFC3339)+"/"+
			from.Add(time.Duration(1+r.IntN(50))*time.Hour).Format(time.RFC3339))
	}
	return strings.Join(windows, ";") + "|" + strings.Join(freezes, ";")
}

// TestRandomWindows advances a clock by minutes. It checks that changes are permitted again exactly at the time in the
// earlier message. The weeks contain changes of daylight saving time in several zones.
func TestRandomWindows(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 12 {
		begin := time.Date(2026, 2+time.Month(r.IntN(10)), 1+r.IntN(28), 0, 0, 0, 0, time.UTC)
		text := randomLimits(r, begin)
		l := limits(text)
		var promised time.Time
		wasClosed := false
		for now := begin; now.Before(begin.AddDate(0, 0, 21)); now = now.Add(time.Minute) {
			got := l.At(now)
			switch {
			case got.Closed && got.Opens.IsZero() || got.Closed && !got.Opens.After(now):
				t.Fatalf("%s at %s: %+v", text, now, got)
			case got.Closed && wasClosed && !got.Opens.Equal(promised):
				t.Fatalf("%s at %s: opens at %s, promised %s", text, now, got.Opens, promised)
			case !got.Closed && wasClosed && !now.Equal(promised):
				t.Fatalf("%s at %s: open, promised %s", text, now, promised)
			}
			promised, wasClosed = got.Opens, got.Closed
		}
	}
}

// TestWallClock compares the openings of random windows with the local time, except near changes of daylight saving
// time.
func TestWallClock(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		minute, hour, day := r.IntN(60), r.IntN(24), r.IntN(7)
		zone, err := time.LoadLocation([]string{"UTC", "Europe/Berlin", "Asia/Kolkata"}[r.IntN(3)])
		if err != nil {
			t.Fatal(err)
		}
		duration := time.Duration(1+r.IntN(20*60)) * time.Minute
		now := time.Date(2026, 5, 1+r.IntN(90), r.IntN(24), r.IntN(60), 0, 0, zone)
		// This is the last opening before now, computed from the calendar.
		opened := time.Date(now.Year(), now.Month(), now.Day(), hour, minute, 0, 0, zone)
		for opened.After(now) || int(opened.Weekday()) != day {
			opened = opened.AddDate(0, 0, -1)
		}
		text := fmt.Sprintf("%d %d * * %d %s %s", minute, hour, day, duration, zone)
		got := limits(text).At(now)
		if want := now.Before(opened.Add(duration)); want == got.Closed {
			t.Fatalf("%s at %s: %+v, the last opening was at %s", text, now, got, opened)
		}
	}
}

// FuzzAnnotations checks that no text causes a panic or permits a change that it should forbid.
func FuzzAnnotations(f *testing.F) {
	f.Add("0 22 * * 1-5 4h Europe/Berlin; 0 8 * * 6 10h", "2026-12-20/2027-01-03", "not now")
	f.Add("* * * * * 1m", "2026-12-20T00:00:00Z/2027-01-03T00:00:00+05:30", "")
	f.Fuzz(func(t *testing.T, windows, freezes, veto string) {
		l := limits(strings.ReplaceAll(windows, "|", "") + "|" + strings.ReplaceAll(freezes, "|", "") + "|" +
			strings.ReplaceAll(veto, "|", ""))
		now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
		got := l.At(now)
		if got.Closed == (got.Why == "") || !got.Opens.IsZero() && (!got.Closed || l.At(got.Opens).Closed) {
			t.Errorf("%+v", got)
		}
	})
}

// TestCachesAreBounded checks the memory for annotations that their author changes again and again. It measures memory,
// so it runs alone.
func TestCachesAreBounded(t *testing.T) {
	now := at(t, "2026-11-26T12:00:00Z")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for name, tc := range map[string]struct {
		before, repeated, after string
		length                  int
		why                     string
	}{
		"windows that are too long": {"0 22 * * * 4h;", ";", "", 200 << 10, "it has more than 8 KiB"},
		"freezes that are too long": {"-|2026-12-20/2027-01-03;", ";", "", 200 << 10, "it has more than 8 KiB"},
		"a window":                  {"0 22 * * * 4h a b", "\x01", "", 7000, "not five fields"},
		"a schedule":                {"", "\x01", " * * * * 4h", 7000, "the schedule"},
		"a time zone":               {"0 22 * * * 4h ", "\x01", "", 7000, "the time zone"},
		"valid windows":             {"0 22 * * * 4h", " ", ";", 7000, "closed"},
	} {
		for i := range 1000 {
			text := tc.before + strings.Repeat(tc.repeated, tc.length+i) + tc.after
			if state := limits(text).At(now); !strings.Contains(state.Why, tc.why) || len(state.Why) > 2*maxInvalid {
				t.Fatalf("%s: got %.2000q", name, state.Why)
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 8<<20 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
}
