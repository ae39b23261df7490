// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// events is the output of go test for a package with one test that fails and one with a slow part.
const events = `{"Action":"start","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a"}
{"Action":"run","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestOne"}
{"Action":"output","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestOne","Output":"    one_test.go:1: the last word\n"}
{"Action":"fail","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestOne","Elapsed":1.5}
{"Action":"run","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestTwo"}
{"Action":"output","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestTwo","Output":"    m.go:9: waited 2.5 s for a slot\n"}
{"Action":"pass","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestTwo/part","Elapsed":9}
{"Action":"pass","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestTwo","Elapsed":10}
{"Action":"skip","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Test":"TestThree","Elapsed":0}
a line that is no event
{"Action":"output","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Output":"logs are kept in /tmp/x\n"}
{"Action":"fail","Package":"github.com/helmop/cluster-api-addon-provider-helmop/a","Elapsed":12}
`

func TestReport(t *testing.T) {
	t.Parallel()
	clock := time.Unix(0, 0)
	var out, log bytes.Buffer
	r := newReport(&out, func() time.Time { return clock })
	r.expected = 1
	clock = clock.Add(61 * time.Second)
	if err := r.read(0, strings.NewReader(events), &log); err != nil {
		t.Fatal(err)
	}
	if !r.finish("/logs") {
		t.Error("a failure is no failure")
	}
	for _, want := range []string{
		"  1:01  FAIL a TestOne (1.5 s)\n", "the last word", "[1/1] FAIL a (12.0 s)\n", "logs are kept in /tmp/x",
		"      7.5 s  a TestTwo\n", "output is in /logs", "2 passed, 1 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if !strings.Contains(log.String(), "a line that is no event") || !strings.Contains(log.String(), "=== RUN   TestOne") {
		t.Errorf("the log is incomplete:\n%s", log.String())
	}
}

// TestReportEndsWithTheMessages has a test that logs before and after its failure.
func TestReportEndsWithTheMessages(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newReport(&out, time.Now)
	for _, line := range []string{"=== RUN   TestA\n", "    a_test.go:1: a note\n", "    b_test.go:2: Timed out.\n",
		"        Expected " + strings.Repeat("x", 1000) + "\n", "    dump_test.go:3: the state after the failure:\n",
		"    dump_test.go:4: an object\n", "--- FAIL: TestA (1.00s)\n"} {
		r.add(0, event{Action: "output", Package: "p", Test: "TestA", Output: line})
	}
	r.add(0, event{Action: "fail", Package: "p", Test: "TestA"})
	r.finish("/logs")
	_, end, _ := strings.Cut(out.String(), "output is in /logs:\n")
	want := "  p TestA\n        b_test.go:2: Timed out.\n            Expected " + strings.Repeat("x", 283) + "\n0 passed"
	if !strings.HasPrefix(end, want) {
		t.Errorf("got %q, want %q", end, want)
	}
}

// TestReportOfARace has a data race that the detector reports at another test, which passes.
func TestReportOfARace(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newReport(&out, time.Now)
	for _, line := range []string{"==================\n", "WARNING: DATA RACE\n", "Write at 0x1 by goroutine 2:\n",
		"  p.f()\n", "==================\n", "other output\n", "==================\n", "WARNING: DATA RACE\n",
		"Write at 0x9 by goroutine 9:\n", "==================\n"} {
		r.add(0, event{Action: "output", Package: "p", Test: "TestOther", Output: line})
	}
	r.add(0, event{Action: "pass", Package: "p", Test: "TestOther"})
	r.add(0, event{Action: "fail", Package: "p", Test: "TestA"})
	r.finish("/logs")
	_, end, _ := strings.Cut(out.String(), "output is in /logs:\n")
	want := "  p TestA\n  p: the first data race:\n    WARNING: DATA RACE\n    Write at 0x1 by goroutine 2:\n      p.f()\n" +
		"1 passed, 1 failed, 0 skipped\n"
	if end != want {
		t.Errorf("got %q, want %q", end, want)
	}
}

func TestReportOfABuildThatFails(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := newReport(&out, time.Now)
	err := r.read(0, strings.NewReader(`{"ImportPath":"x/b [x/b.test]","Action":"build-output","Output":"b.go:1: syntax error\n"}
{"ImportPath":"x/b [x/b.test]","Action":"build-fail"}
{"Action":"start","Package":"x/b"}
{"Action":"fail","Package":"x/b","Elapsed":0,"FailedBuild":"x/b [x/b.test]"}
`), &bytes.Buffer{})
	if err != nil || !r.finish("/logs") || !strings.Contains(out.String(), "syntax error") ||
		!strings.HasSuffix(out.String(), "0 passed, 1 failed, 0 skipped\n") {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestBeat(t *testing.T) {
	t.Parallel()
	clock := time.Unix(0, 0)
	var out bytes.Buffer
	r := newReport(&out, func() time.Time { return clock })
	for _, e := range []event{
		{Action: "start", Package: "p"}, {Action: "run", Package: "p", Test: "TestA"},
		{Action: "run", Package: "p", Test: "TestB"},
		{Action: "pause", Package: "p", Test: "TestB"}, {Action: "run", Package: "p", Test: "TestA/part"},
		{Action: "run", Package: "p", Test: "TestC"},
		{Action: "output", Package: "p", Test: "TestC", Output: "    m.go:1: waiting for a slot\n"},
	} {
		r.add(0, e)
	}
	r.beat(heartbeat)
	if out.Len() > 0 {
		t.Errorf("too early: %s", out.String())
	}
	clock = clock.Add(heartbeat)
	r.beat(heartbeat)
	if want := "  0:30  running: p TestA (30 s)\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	own, groups := split([]string{"-jobs", "2", "--", "A=1", "-run=X=Y", "./a", "--", "-C=m", "./b"})
	if strings.Join(own, " ") != "-jobs 2" || len(groups) != 2 || strings.Join(groups[0].env, " ") != "A=1" ||
		strings.Join(groups[0].args, " ") != "-run=X=Y ./a" || strings.Join(groups[1].args, " ") != "./b" ||
		groups[0].dir != "" || groups[1].dir != "m" {
		t.Errorf("got %v, %+v", own, groups)
	}
	if err := run(t.Context(), []string{"./a"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("got %v", err)
	}
}

// TestRun runs go test on a module of two packages.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n\n" +
			"func TestBad(t *testing.T) { t.Fatal(\"what was wrong\") }\n\nfunc TestMain(m *testing.M) { m.Run() }\n",
		"b/b_test.go": "package b\n\nimport \"testing\"\n\nfunc TestOther(t *testing.T) {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	var out bytes.Buffer
	logs := t.TempDir()
	err := run(t.Context(), []string{"-logs", logs, "--", "-C=a", ".", "--", "./..."}, &out)
	if !errors.Is(err, errFailed) {
		t.Errorf("got %v", err)
	}
	// Two tests of the package that is the only one of its group, and two packages.
	for _, want := range []string{"/4] FAIL example.org/m/a TestBad", "/4] ok   example.org/m/b", "what was wrong",
		"3 passed, 2 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if data, err := os.ReadFile(filepath.Join(logs, "go-test-2.log")); err != nil ||
		!strings.Contains(string(data), "what was wrong") {
		t.Errorf("%v: %s", err, data)
	}
	out.Reset()
	if err := run(t.Context(), []string{"--", "-run=Other", "./b"}, &out); err != nil ||
		!strings.Contains(out.String(), "[1/1] ok   example.org/m/b TestOther") {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if err := run(t.Context(), []string{"--", "-run=Renamed", "./b"}, &out); err == nil ||
		!strings.Contains(err.Error(), "no test in example.org/m/b matches -run=Renamed") {
		t.Errorf("got %v", err)
	}
	if err := run(t.Context(), []string{"--", "./missing"}, &out); err == nil ||
		!strings.Contains(err.Error(), "missing") {
		t.Errorf("got %v", err)
	}
}
