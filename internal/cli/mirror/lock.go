// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	lockVersion = "helmop.mirror/v1"
	lockHeader  = "# Written by \"kubectl helmop mirror\". Keep it under version control.\n"
)

// Entry is an artifact or an image that was copied.
type Entry struct {
	// Source is the name that the user gave: oci://host/repository:tag, https://host/path/chart:version, or the name of an
	// image.
	Source string `json:"source"`
	// Version is the version of a chart from a chart repository.
	Version string `json:"version,omitempty"`
	// ArchiveDigest is the digest of the archive in a chart repository.
	ArchiveDigest string `json:"archiveDigest,omitempty"`
	// Target is the repository of the copy, oci://host/repository. Tag is its tag.
	Target string `json:"target"`
	Tag    string `json:"tag,omitempty"`
	// Digest is the digest of the manifest at the target.
	Digest string `json:"digest"`
	// IsImage is true for the image of a container.
	IsImage bool `json:"image,omitempty"`
}

// Lock lists the copies, in the order of the sources.
type Lock struct {
	Version string  `json:"version"`
	Entries []Entry `json:"entries"`
}

// ReadLock reads a lock file. A file that does not exist is an empty lock.
func ReadLock(path string) (*Lock, error) {
	lock := &Lock{Version: lockVersion}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return lock, nil
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(data, lock); err != nil {
		return nil, fmt.Errorf("%s is not a lock file: %w", path, err)
	}
	if lock.Version != lockVersion {
		return nil, fmt.Errorf("%s has the version %q, which this program does not know; it knows %q", path, lock.Version,
			lockVersion)
	}
	return lock, nil
}

// Find returns the entry of a source.
func (l *Lock) Find(source string) (Entry, bool) {
	for _, entry := range l.Entries {
		if entry.Source == source {
			return entry, true
		}
	}
	return Entry{}, false
}

// Put adds an entry. It replaces an entry with the same source.
func (l *Lock) Put(entry Entry) {
	for i := range l.Entries {
		if l.Entries[i].Source == entry.Source {
			l.Entries[i] = entry
			return
		}
	}
	l.Entries = append(l.Entries, entry)
}

// Write writes the lock file. If the program is stopped meanwhile, the previous file remains.
func (l *Lock) Write(path string) error {
	slices.SortFunc(l.Entries, func(a, b Entry) int { return strings.Compare(a.Source, b.Source) })
	data, err := yaml.Marshal(l)
	if err != nil {
		return err
	}
	data = append([]byte(lockHeader), data...)
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}
