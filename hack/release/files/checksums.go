// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ChecksumFile is the name of the file with the checksums, in the format of sha256sum.
const ChecksumFile = "SHA256SUMS"

// Sum returns the SHA-256 of a file, in hexadecimal.
func Sum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Sums returns the SHA-256 of each file in a folder, by name. It omits files whose names except matches.
func Sums(folder string, except func(name string) bool) (map[string]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for _, entry := range entries {
		if entry.IsDir() || except(entry.Name()) {
			continue
		}
		if sums[entry.Name()], err = Sum(filepath.Join(folder, entry.Name())); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// Checksums returns the text of ChecksumFile, sorted by name.
func Checksums(sums map[string]string) []byte {
	var text bytes.Buffer
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}
	return text.Bytes()
}

// ParseChecksums reads the text of ChecksumFile.
func ParseChecksums(text []byte) (map[string]string, error) {
	sums := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if _, err := hex.DecodeString(sum); !ok || err != nil || len(sum) != 2*sha256.Size || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s: %q is not a checksum and a file name", ChecksumFile, lines.Text())
		}
		sums[name] = sum
	}
	return sums, nil
}
