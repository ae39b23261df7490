// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func parseUpper(data []byte) (string, error) {
	if strings.HasPrefix(string(data), "bad") {
		return "", errors.New("cannot be read")
	}
	return strings.ToUpper(string(data)), nil
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, "one")
	var reports []string
	file := watchFile(path, parseUpper, func(err error) { reports = append(reports, err.Error()) })
	want := func(value string, reported int) {
		t.Helper()
		for range 3 { // repeated reads do not repeat the report
			if got, err := file.get(); err != nil || got != value || len(reports) != reported {
				t.Errorf("value = %q, %v, reports = %q; want %q and %d", got, err, reports, value, reported)
			}
		}
	}
	want("ONE", 0)
	writeFile(t, path, "two") // the same length as before, and nearly the same timestamp
	want("TWO", 0)
	// The file has the same metadata. Only the content is different.
	now := time.Now()
	for _, content := range []string{"six", "ten"} {
		writeFile(t, path, content)
		if err := os.Chtimes(path, now, now); err != nil {
			t.Fatal(err)
		}
		want(strings.ToUpper(content), 0)
	}
	writeFile(t, path, "bad planted-x")
	want("TEN", 1)
	if strings.Contains(reports[0], "planted") || !strings.Contains(reports[0], path) {
		t.Errorf("the report %q must name the file and not its content", reports[0])
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("", 1)
	// A file that was never valid has no value that could replace it.
	writeFile(t, path, strings.Repeat("x", maxFile+1))
	if _, err := file.get(); !errors.Is(err, errBrokenFile) || len(reports) != 2 {
		t.Errorf("error = %v, reports = %q, want a file that cannot be used, and is reported", err, reports)
	}
	// A file of a mounted ConfigMap is a symbolic link. An update moves the link to a new file.
	next := filepath.Join(filepath.Dir(path), "next")
	writeFile(t, next, "three")
	if err := errors.Join(os.Remove(path), os.Symlink(next, path)); err != nil {
		t.Fatal(err)
	}
	want("THREE", 2)
	writeFile(t, next, "bad again")
	want("THREE", 3)
}

func TestWatchedFileIsReadOnlyWhenItChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	writeFile(t, path, "one")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	reads := 0
	file := watchFile(path, func([]byte) (int, error) { reads++; return reads, nil }, nil)
	for range 5 {
		if _, err := file.get(); err != nil {
			t.Error(err)
		}
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
}
