// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestPodLog copies the output of a program that is started twice.
func TestPodLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := newPodLog(dir, filepath.Join(dir, "output"))
	output := func(text string) {
		t.Helper()
		file, err := os.OpenFile(log.source, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(file, want string) {
		t.Helper()
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := regexp.MustCompile(`(?m)^\S+Z `).ReplaceAllString(string(content), ""); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	output("one\ntw")
	if err := log.copy(); err != nil {
		t.Fatal(err)
	}
	expect(log.current, "stderr F one\n")
	output("o\n")
	if err := log.rotate(); err != nil {
		t.Fatal(err)
	}
	expect(log.previous, "stderr F one\nstderr F two\n")
	output("three\n")
	if err := log.copy(); err != nil {
		t.Fatal(err)
	}
	expect(log.current, "stderr F three\n")
	if err := (*podLog)(nil).copy(); err != nil {
		t.Error(err)
	}
}
