// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNameLength is the maximum length of a file name, in bytes. File systems support this length.
const maxNameLength = 1024

var drivePath = regexp.MustCompile(`^[A-Za-z]:`)

// budget limits the unpacking of an artifact. All layers and nested archives share the budget.
type budget struct {
	limits Limits
	// invalid is the kind of the error for broken content. It depends on the format.
	invalid error
	// bytes is the size of all files that were unpacked, in bytes.
	bytes int64
	// entries counts all entries. Skipped entries count too, because an archive could have millions of them.
	entries int
	// remaining is the number of bytes that may still be decompressed. It also limits headers, padding and skipped
	// entries, which are not part of a file.
	remaining int64
	// memory reserves memory before a file is read.
	memory *Memory
}

func newBudget(limits Limits, invalid error, memory *Memory) *budget {
	return &budget{limits: limits, invalid: invalid, remaining: 2*limits.UnpackedBytes + 1<<20, memory: memory}
}

// CheckPacked returns ErrTooLarge if packed content of this size exceeds the limit.
func CheckPacked(size int64, limits Limits) error {
	if size > limits.PackedBytes {
		return fmt.Errorf("%w: packed, it has %d bytes; the limit is %d", ErrTooLarge, size, limits.PackedBytes)
	}
	return nil
}

// unzip returns a reader for a tar archive, decompressed if it is gzipped.
func (b *budget) unzip(packed []byte) (io.Reader, error) {
	switch {
	case bytes.HasPrefix(packed, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, fmt.Errorf("%w: it is not a gzip archive", b.invalid)
		}
		return unzipped, nil
	case bytes.HasPrefix(packed, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return nil, fmt.Errorf("%w: it is compressed with zstd; compress it with gzip", b.invalid)
	}
	return bytes.NewReader(packed), nil
}

// walk calls visit for each entry of a tar archive. what names the archive in errors.
func (b *budget) walk(archive io.Reader, what string, visit func(*tar.Header, io.Reader) error) error {
	entries := tar.NewReader(budgetReader{from: archive, remaining: &b.remaining})
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

// errBudget means that the archives have more decompressed bytes than the budget.
var errBudget = errors.New("over budget")

// budgetReader subtracts the bytes that it reads from a shared budget.
type budgetReader struct {
	from      io.Reader
	remaining *int64
}

// Read implements io.Reader.
func (r budgetReader) Read(p []byte) (int, error) {
	if *r.remaining <= 0 {
		return 0, errBudget
	}
	if int64(len(p)) > *r.remaining {
		p = p[:*r.remaining]
	}
	n, err := r.from.Read(p)
	*r.remaining -= int64(n)
	return n, err
}

// read returns the content of an entry. The content has at most limit bytes.
func (b *budget) read(header *tar.Header, from io.Reader, limit int64) ([]byte, error) {
	if err := b.take(header.Name, header.Size, limit); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(from, header.Size))
	if errors.Is(err, errBudget) {
		return nil, b.tooLarge()
	}
	if err != nil || int64(len(data)) != header.Size {
		return nil, fmt.Errorf("%w: %q is truncated", b.invalid, Clip(header.Name))
	}
	return data, nil
}

// take counts the size of an unpacked file, and reserves memory for the file. It returns an error if the file or the
// sum is too large.
func (b *budget) take(name string, size, limit int64) error {
	if size > b.limits.UnpackedBytes-b.bytes {
		return b.tooLarge()
	}
	if size > limit {
		return fmt.Errorf("%w: %q has %d bytes; the limit is %d", ErrTooLarge, Clip(name), size, limit)
	}
	b.bytes += size
	return b.memory.unpack(b.bytes)
}

// count counts an entry. It returns an error if there are too many.
func (b *budget) count() error {
	if b.entries++; b.entries > b.limits.Files {
		return fmt.Errorf("%w: it has more than %d files", ErrTooLarge, b.limits.Files)
	}
	return nil
}

// notRegular returns the error for an entry that is not a regular file.
func (b *budget) notRegular(name string) error {
	return fmt.Errorf("%w: %q is a link or device; only regular files are supported", b.invalid, Clip(name))
}

func (b *budget) tooLarge() error {
	return fmt.Errorf("%w: unpacked, it has more than %d bytes", ErrTooLarge, b.limits.UnpackedBytes)
}

// safeName returns a file name with "/" as separator. It returns an error of the given kind if the name is absolute or
// leads out of the folder.
func safeName(raw string, invalid error) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%w: entry %q %s", invalid, Clip(raw), why)
	}
	switch {
	case len(raw) > maxNameLength:
		return refuse("has too long a name")
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, unicode.IsControl):
		return refuse("has a name that is not printable text")
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
