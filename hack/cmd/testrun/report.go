// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// slowest is the number of slow tests at the end of the report.
	slowest = 10
	// lastWords is the number of output lines of a failed test in the report. lastWordsCI is used where the log files
	// cannot be read.
	lastWords, lastWordsCI = 60, 2000
	// packageWords is the number of output lines of a package, without its tests, in the report.
	packageWords = 10
	// messageLines and messageColumns bound the message of a failed test at the end of the report.
	messageLines, messageColumns = 12, 300
	// longestLine bounds one event of go test, in bytes.
	longestLine = 16 << 20
	// shownRunning is the number of running tests that a heartbeat names.
	shownRunning = 6
)

// event is a line of `go test -json`, see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
	// ImportPath replaces Package in output of the compiler.
	ImportPath string
	// FailedBuild names the package that could not be built, if a package failed for this reason.
	FailedBuild string
}

// name identifies a test, or a package if Test is empty. Two groups may test one package at the same time.
type name struct {
	group     int
	pkg, test string
}

func (n name) String() string {
	short := strings.TrimPrefix(strings.TrimPrefix(n.pkg, module), "/")
	if short == "" {
		short = "."
	}
	if n.test == "" {
		return short
	}
	return short + " " + n.test
}

func (n name) samePackage(other name) bool { return n.group == other.group && n.pkg == other.pkg }

const module = "github.com/helmop/cluster-api-addon-provider-helmop"

// result is a finished test or package.
type result struct {
	name    name
	seconds float64
}

// report collects the results of all groups. Its methods may be called concurrently.
type report struct {
	out io.Writer
	now func() time.Time
	// lastWords is the number of lines of a failure that are shown.
	lastWords int

	mu sync.Mutex
	// started is when the first group started. printed is when the last line was printed.
	started, printed time.Time
	// expected and ended count lines of progress: the top-level tests of packages in single, and the other packages.
	expected, ended int
	// single are the packages whose tests are reported one by one.
	single map[string]bool
	// passed, failed and skipped count tests, including subtests.
	passed, failed, skipped int
	// running are the running tests and packages, with their start times. Tests that wait for a slot are not included.
	running map[name]time.Time
	// output is the output of tests, packages and the compiler. The output of passed tests is deleted.
	output map[name][]string
	// waits are the seconds that tests waited for slots.
	waits map[name]float64
	// broken are the failed tests and packages, in the order of their failures.
	broken []name
	// slow are all finished top-level tests.
	slow []result
	// races are the reports of the race detector, by package. The detector reports a race at any test of the package,
	// often at one that passes. racing are the packages whose report has not ended.
	races  map[name][]string
	racing map[name]bool
}

func newReport(out io.Writer, now func() time.Time) *report {
	shown := lastWords
	if os.Getenv("CI") != "" {
		shown = lastWordsCI
	}
	return &report{
		out: out, now: now, started: now(), printed: now(), lastWords: shown,
		single: map[string]bool{}, running: map[name]time.Time{}, output: map[name][]string{}, waits: map[name]float64{},
		races: map[name][]string{}, racing: map[name]bool{},
	}
}

// hasFailed reports whether a test or package of a group has failed.
func (r *report) hasFailed(group int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.broken, func(n name) bool { return n.group == group })
}

// read reads the go test of a group until its output ends, and copies the readable output to log.
func (r *report) read(group int, from io.Reader, log io.Writer) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// Programs may write other lines between the events.
			e = event{Action: "output", Output: lines.Text() + "\n"}
		}
		if _, err := io.WriteString(log, e.Output); err != nil {
			return err
		}
		r.add(group, e)
	}
	return lines.Err()
}

func (r *report) add(group int, e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := name{group: group, pkg: cmp.Or(e.Package, e.ImportPath), test: e.Test}
	switch e.Action {
	case "start", "run", "cont":
		r.running[n] = r.now()
	case "pause":
		delete(r.running, n)
	case "output", "build-output":
		r.noteWait(n, e.Output)
		r.noteRace(name{group: group, pkg: n.pkg}, e.Output)
		r.output[n] = append(r.output[n], e.Output)
	case "build-fail":
		r.end(n, e)
	case "pass", "fail", "skip":
		delete(r.running, n)
		r.end(n, e)
	}
}

// waiting and waited match the lines of a test before and after its wait for a slot. The wait is not counted in the
// test's time.
var (
	waiting = regexp.MustCompile(`\bwaiting for a slot\n`)
	waited  = regexp.MustCompile(`\bwaited ([0-9]+\.[0-9]) s for a slot\n`)
)

func (r *report) noteWait(n name, output string) {
	if waiting.MatchString(output) {
		delete(r.running, n)
	}
	if found := waited.FindStringSubmatch(output); found != nil {
		seconds, _ := strconv.ParseFloat(found[1], 64)
		r.waits[n] += seconds
		r.running[n] = r.now()
	}
}

// raceBegin and raceEnd are the first line of a report of the race detector and the line after it.
const raceBegin, raceEnd = "WARNING: DATA RACE\n", "==================\n"

// noteRace keeps the first report of the race detector for a package.
func (r *report) noteRace(pkg name, output string) {
	switch {
	case strings.HasSuffix(output, raceBegin) && r.races[pkg] == nil:
		r.racing[pkg] = true
	case output == raceEnd:
		delete(r.racing, pkg)
	}
	if r.racing[pkg] {
		r.races[pkg] = append(r.races[pkg], output)
	}
}

// logged matches the beginning of what a test logs. state matches the line after which a test logs the state that its
// failure left.
var (
	logged = regexp.MustCompile(`^ *\w+\.go:\d+: `)
	state  = regexp.MustCompile(`^ *\w+\.go:\d+: the state after the failure:\n`)
)

// message returns the first lines of why a test failed: the last that it logged before the state. A CI system may keep
// only the last lines of the report, so these end it.
func (r *report) message(n name) string {
	lines := strings.SplitAfter(strings.Join(r.output[n], ""), "\n")
	if i := slices.IndexFunc(lines, state.MatchString); i >= 0 {
		lines = lines[:i]
	}
	for i := len(lines) - 1; i >= 0; i-- {
		if logged.MatchString(lines[i]) {
			lines = lines[i:]
			break
		}
	}
	var text strings.Builder
	for _, line := range lines[:min(len(lines), messageLines)] {
		if line = strings.TrimRight(line, "\n"); line != "" {
			text.WriteString("    " + line[:min(len(line), messageColumns)] + "\n")
		}
	}
	return text.String()
}

// end records that a test or package has ended.
func (r *report) end(n name, e event) {
	e.Elapsed -= r.waits[n]
	failed := strings.HasSuffix(e.Action, "fail")
	if n.test != "" {
		switch {
		case failed:
			r.failed++
		case e.Action == "skip":
			r.skipped++
		default:
			r.passed++
		}
	}
	if n.test != "" && !strings.Contains(n.test, "/") {
		r.slow = append(r.slow, result{n, e.Elapsed})
	}
	// A package fails if one of its tests fails. It is reported only if it failed for another reason.
	if failed && (n.test != "" || e.FailedBuild == "" && !r.brokenIn(n)) {
		r.broken = append(r.broken, n)
		r.printf("FAIL %s (%.1f s)\n%s", n, e.Elapsed, r.tail(n, r.lastWords))
	}
	r.progress(n, e)
	if failed && n.test == "" && e.FailedBuild == "" && r.brokenIn(n) && r.broken[len(r.broken)-1] != n {
		// Print the last lines of the package, for example the folder of its logs.
		r.printf("%s\n%s", n, r.tail(n, max(packageWords, r.lastWords-lastWords)))
	}
	if !failed {
		delete(r.output, n)
	}
}

// brokenIn reports whether a test of the package of n failed.
func (r *report) brokenIn(n name) bool {
	return slices.ContainsFunc(r.broken, n.samePackage)
}

// progress prints a line for a package, or for a test of a package whose tests are reported one by one.
func (r *report) progress(n name, e event) {
	counts := n.test == "" && !r.single[n.pkg] || r.single[n.pkg] && n.test != "" && !strings.Contains(n.test, "/")
	if !counts || e.Action == "build-fail" {
		return
	}
	r.ended++
	if e.Action == "skip" && n.test == "" {
		return // The package has no tests.
	}
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "skip"}[e.Action]
	r.printf("[%*d/%d] %s %s (%.1f s)\n", len(fmt.Sprint(r.expected)), r.ended, r.expected, word, n, e.Elapsed)
}

// tail returns the last output lines of a test or package, indented.
func (r *report) tail(n name, lastWords int) string {
	lines := strings.SplitAfter(strings.TrimRight(strings.Join(r.output[n], ""), "\n"), "\n")
	omitted := ""
	if len(lines) > lastWords {
		omitted = fmt.Sprintf("    … %d lines before, see the complete output\n", len(lines)-lastWords)
		lines = lines[len(lines)-lastWords:]
	}
	return omitted + "    " + strings.Join(lines, "    ") + "\n"
}

// beat prints the running tests if nothing was printed for an interval.
func (r *report) beat(interval time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Sub(r.printed) < interval {
		return
	}
	var running []result
	for n, since := range r.running {
		if n.test == "" && slices.ContainsFunc(keys(r.running),
			func(o name) bool { return o.samePackage(n) && o.test != "" }) {
			continue
		}
		if !strings.Contains(n.test, "/") {
			running = append(running, result{n, r.now().Sub(since).Seconds()})
		}
	}
	if len(running) == 0 {
		r.printf("compiling\n")
		return
	}
	slices.SortFunc(running, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	names := make([]string, 0, shownRunning)
	for _, t := range running[:min(len(running), shownRunning)] {
		names = append(names, fmt.Sprintf("%s (%.0f s)", t.name, t.seconds))
	}
	r.printf("running: %s\n", strings.Join(names, ", "))
}

func keys(running map[name]time.Time) []name {
	names := make([]name, 0, len(running))
	for n := range running {
		names = append(names, n)
	}
	return names
}

// finish prints the slowest tests, the failures and the counts. dir is the folder of the complete output. finish
// returns true if anything failed.
func (r *report) finish(dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.slow, func(a, b result) int { return cmp.Compare(b.seconds, a.seconds) })
	r.printf("the slowest tests:\n")
	for _, t := range r.slow[:min(len(r.slow), slowest)] {
		fmt.Fprintf(r.out, "  %7.1f s  %s\n", t.seconds, t.name)
	}
	if len(r.broken) > 0 {
		r.printf("failed; the complete output is in %s:\n", dir)
		for _, n := range r.broken {
			fmt.Fprintf(r.out, "  %s\n%s", n, r.message(n))
		}
		for n, race := range r.races {
			fmt.Fprintf(r.out, "  %s: the first data race:\n    %s", n, strings.Join(race, "    "))
		}
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, max(r.failed, len(r.broken)), r.skipped)
	return len(r.broken) > 0
}

// printf prints a line that begins with the time since the start.
func (r *report) printf(format string, args ...any) {
	r.printed = r.now()
	elapsed := r.now().Sub(r.started).Round(time.Second)
	fmt.Fprintf(r.out, "%3d:%02d  %s", int(elapsed.Minutes()), int(elapsed.Seconds())%60, fmt.Sprintf(format, args...))
}
