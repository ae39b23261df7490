// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

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
	// maxFile is the maximum size of a file of Options, in bytes.
	maxFile = 1 << 20
	// settledAfter is the minimum age of a timestamp that proves that a file is unchanged. The timestamps of file
	// systems are coarse.
	settledAfter = 2 * time.Second
)

// errBrokenFile means that a file of Options is invalid and was never valid.
var errBrokenFile = errors.New("a file of the manager is invalid")

// watchedFile is a file that is read again when it changes. Mounted ConfigMaps and Secrets change at any time. Each use
// costs one stat. There is no watcher.
type watchedFile[T any] struct {
	path   string
	parse  func([]byte) (T, error)
	report func(error)

	mu    sync.Mutex
	seen  os.FileInfo
	value T
	// valid is true if value was read from the file. If it is false, value is the result of parse without data.
	valid bool
	// initialErr is the error of a file that exists and was never valid.
	initialErr error
	// reported is the text of the last reported failure.
	reported string
}

// watchFile reads the file for the first time and returns a watchedFile. Without a path, or while the file does not
// exist, the value is the result of parse(nil). A file may not exist yet, because the mounted ConfigMap or Secret does
// not exist yet. Each failure is reported once, and the last valid value stays in use.
func watchFile[T any](path string, parse func([]byte) (T, error), report func(error)) *watchedFile[T] {
	f := &watchedFile[T]{path: path, parse: parse, report: report}
	if path == "" {
		f.value, f.initialErr = parse(nil)
		return f
	}
	f.load()
	return f
}

// get returns the current value of the file. It returns an error if the file was never valid, because no default can
// replace the settings in the file.
func (f *watchedFile[T]) get() (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path != "" && !f.unchanged() {
		f.load()
	}
	return f.value, f.initialErr
}

// load reads the file. The caller holds mu.
func (f *watchedFile[T]) load() {
	seen, value, err := f.read()
	f.seen = seen
	if err == nil {
		f.value, f.valid, f.initialErr, f.reported = value, seen != nil, nil, ""
		return
	}
	if !f.valid {
		f.initialErr = fmt.Errorf("%w: %w", errBrokenFile, err)
	}
	if text := err.Error(); text != f.reported {
		f.reported = text
		f.report(err)
	}
}

// unchanged reports whether the file is certainly the same as at the last read.
func (f *watchedFile[T]) unchanged() bool {
	now, err := os.Stat(f.path)
	return err == nil && f.seen != nil && os.SameFile(f.seen, now) && f.seen.Size() == now.Size() &&
		f.seen.ModTime().Equal(now.ModTime()) && time.Since(now.ModTime()) > settledAfter
}

// read returns the metadata of the opened file, and its value. Errors name the file and do not contain its content.
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
