// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	// maxFile bounds each of the files in Options, in bytes.
	maxFile = 1 << 20
	// settledAfter is how old a file must be for its time stamp to tell it from
	// what may be written next: file systems count time in ticks.
	settledAfter = 2 * time.Second
)

// errBrokenFile says that a file of Options cannot be used and never could.
var errBrokenFile = errors.New("a file of the manager is invalid")

// watchedFile is a file that is read again when it changes, as mounted
// ConfigMaps and Secrets do. Looking costs a stat at each use, and no watcher.
type watchedFile[T any] struct {
	path   string
	parse  func([]byte) (T, error)
	report func(error)

	mu    sync.Mutex
	seen  os.FileInfo
	value T
	// good is whether value is what the file said; else it is the answer to nothing.
	good bool
	// never is what is wrong with a file that was not good since it is there.
	never error
	// broken is the text of the failure that was reported last.
	broken string
}

// watchFile reads a file for the first time. With no path and while there is no
// file, as long as nobody has made the ConfigMap or Secret that is to be mounted,
// the value is parse's answer to nothing. Failures go to report, once each, and
// leave the last good value in place.
func watchFile[T any](path string, parse func([]byte) (T, error), report func(error)) *watchedFile[T] {
	f := &watchedFile[T]{path: path, parse: parse, report: report}
	if path == "" {
		f.value, f.never = parse(nil)
		return f
	}
	f.look()
	return f
}

// get returns the value of the file as it is now, or what is wrong with it if it
// was not good since it is there: nothing may stand in then for what it was to say.
func (f *watchedFile[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" && !f.unchanged() {
		f.look()
	}
	return f.value, f.never
}

// look reads the file. The caller holds mu.
func (f *watchedFile[T]) look() {
	seen, value, err := f.read()
	f.seen = seen
	if err == nil {
		f.value, f.good, f.never, f.broken = value, seen != nil, nil, ""
		return
	}
	if !f.good {
		f.never = fmt.Errorf("%w: %w", errBrokenFile, err)
	}
	if text := err.Error(); text != f.broken {
		f.broken = text
		f.report(err)
	}
}

// unchanged says whether the file surely is the one that was read last.
func (f *watchedFile[T]) unchanged() bool {
	now, err := os.Stat(f.path)
	return err == nil && f.seen != nil && os.SameFile(f.seen, now) && f.seen.Size() == now.Size() &&
		f.seen.ModTime().Equal(now.ModTime()) && time.Since(now.ModTime()) > settledAfter
}

// read returns what the file was when it was opened, and its value. Errors name
// the file and hold nothing of its content.
func (f *watchedFile[T]) read() (info os.FileInfo, value T, err error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		value, err = f.parse(nil)
		return nil, value, err
	}
	if err != nil {
		return nil, value, err
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, value, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, value, err
	}
	if len(data) > maxFile {
		return info, value, fmt.Errorf("%s: over %d bytes", f.path, maxFile)
	}
	if value, err = f.parse(data); err != nil {
		return info, value, fmt.Errorf("%s: %w", f.path, err)
	}
	return info, value, nil
}
