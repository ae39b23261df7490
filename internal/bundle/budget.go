// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameLength is what file systems take.
const maxNameLength = 1024

var drivePath = regexp.MustCompile(`^[A-Za-z]:`)

// budget is what unpacking an artifact may cost, all of its layers and what is packed in them together.
type budget struct {
	limits Limits
	// invalid is the error for what is broken, as the format at hand has it.
	invalid error
	// bytes is the size of what was unpacked so far.
	bytes int64
	// entries counts what is skipped too, so that it cannot be made endless.
	entries int
	// left is what may still be unzipped. It bounds headers, padding and skipped
	// entries too, which no file accounts for.
	left int64
}

func newBudget(limits Limits, invalid error) *budget {
	return &budget{limits: limits, invalid: invalid, left: 2*limits.UnpackedBytes + 1<<20}
}

// packed checks the size of what is to be unpacked.
func (b *budget) packed(bytes int64) error {
	if bytes > b.limits.PackedBytes {
		return fmt.Errorf("%w: packed, it has %d bytes; the limit is %d", ErrTooLarge, bytes, b.limits.PackedBytes)
	}
	return nil
}

// walk visits the entries of a tar archive, which is called what in errors.
func (b *budget) walk(archive io.Reader, what string, visit func(*tar.Header, io.Reader) error) error {
	entries := tar.NewReader(budgetReader{from: archive, left: &b.left})
	for {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errBudget) {
			return b.tooLarge()
		}
		if err != nil {
			return fmt.Errorf("%w: %s is not a complete tar archive", b.invalid, what)
		}
		if err := visit(header, entries); err != nil {
			return err
		}
	}
}

// errBudget says that more was unzipped than all archives together may hold.
var errBudget = errors.New("over budget")

// budgetReader takes what it reads from a budget that it shares with others.
type budgetReader struct {
	from io.Reader
	left *int64
}

// Read implements io.Reader.
func (r budgetReader) Read(p []byte) (int, error) {
	if *r.left <= 0 {
		return 0, errBudget
	}
	if int64(len(p)) > *r.left {
		p = p[:*r.left]
	}
	n, err := r.from.Read(p)
	*r.left -= int64(n)
	return n, err
}

// read returns the content of an entry of at most limit bytes.
func (b *budget) read(header *tar.Header, from io.Reader, limit int64) ([]byte, error) {
	if err := b.take(header.Name, header.Size, limit); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(from, header.Size))
	if errors.Is(err, errBudget) {
		return nil, b.tooLarge()
	}
	if err != nil || int64(len(data)) != header.Size {
		return nil, fmt.Errorf("%w: %q is truncated", b.invalid, clip(header.Name))
	}
	return data, nil
}

// take counts a file of some size among what was unpacked.
func (b *budget) take(name string, size, limit int64) error {
	if size > b.limits.UnpackedBytes-b.bytes {
		return b.tooLarge()
	}
	if size > limit {
		return fmt.Errorf("%w: %q has %d bytes; the limit is %d", ErrTooLarge, clip(name), size, limit)
	}
	b.bytes += size
	return nil
}

func (b *budget) tooLarge() error {
	return fmt.Errorf("%w: unpacked, it has more than %d bytes", ErrTooLarge, b.limits.UnpackedBytes)
}

func (b *budget) tooMany() error {
	return fmt.Errorf("%w: it has more than %d files", ErrTooLarge, b.limits.Files)
}

// safeName returns the name of a file of others with "/" between its parts, or an error of the given kind: it must not
// be absolute and not lead out of where it is.
func safeName(raw string, invalid error) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: entry %q %s", invalid, clip(raw), why)
	}
	switch {
	case len(raw) > maxNameLength:
		return refuse("has too long a name")
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl):
		return refuse("has a name that is no printable text")
	}
	slashed := strings.ReplaceAll(raw, `\`, "/") // packed on Windows
	if path.IsAbs(slashed) || drivePath.MatchString(slashed) {
		return refuse("has an absolute path")
	}
	for part := range strings.SplitSeq(slashed, "/") {
		if part == ".." {
			return refuse("leads out of the archive")
		}
	}
	return slashed, nil
}
