// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registryaccess

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/term"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
)

// redraw is the shortest time between two updates of the bar.
const redraw = 100 * time.Millisecond

// progress shows transfers. On a terminal, it shows a bar; otherwise, it prints a line for each blob.
type progress struct {
	out io.Writer
	// width is the width of the terminal; 0 without a terminal.
	width int

	mu          sync.Mutex
	verb        string
	done, total int64
	drawn       time.Time
}

// newProgress shows the transfer of total bytes.
func newProgress(out io.Writer, verb string, total int64) *progress {
	p := &progress{out: out, verb: verb, total: total}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			p.width = width
		}
	}
	return p
}

// add counts transferred bytes.
func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.width > 0 && time.Since(p.drawn) >= redraw {
		p.draw()
	}
}

// draw draws the bar over the previous one. The caller holds mu.
func (p *progress) draw() {
	p.drawn = time.Now()
	text := fmt.Sprintf("%s %s of %s ", p.verb, SizeOf(p.done), SizeOf(p.total))
	room := max(0, min(40, p.width-len(text)-3))
	filled := room
	if p.total > 0 {
		filled = int(min(p.done, p.total) * int64(room) / p.total)
	}
	bar := make([]byte, 0, room)
	for i := range room {
		if i < filled {
			bar = append(bar, '=')
		} else {
			bar = append(bar, ' ')
		}
	}
	_, _ = fmt.Fprintf(p.out, "\r%s[%s]", text, bar)
}

// SizeOf formats a size in bytes.
func SizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// blob prints that a blob was transferred or already existed.
func (p *progress) blob(desc ocispec.Descriptor, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == 0 {
		_, _ = fmt.Fprintf(p.out, "%s %s %s (%s)\n", what, desc.MediaType, desc.Digest, SizeOf(desc.Size))
	}
}

// end ends the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		p.draw()
		_, _ = fmt.Fprintln(p.out)
	}
}

// options returns the options for a copy with progress output.
func (p *progress) options(done string) oras.CopyGraphOptions {
	options := oras.DefaultCopyGraphOptions
	options.PostCopy = func(_ context.Context, desc ocispec.Descriptor) error {
		p.blob(desc, done)
		return nil
	}
	options.OnCopySkipped = func(_ context.Context, desc ocispec.Descriptor) error {
		p.add(desc.Size)
		p.blob(desc, "exists")
		return nil
	}
	return options
}

// countedSource counts the bytes that a copy reads.
type countedSource struct {
	content.ReadOnlyStorage
	progress *progress
}

// Fetch implements content.Fetcher.
func (t countedSource) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	from, err := t.ReadOnlyStorage.Fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	return countedReader{from, t.progress}, nil
}

// countedReader counts the bytes that are read.
type countedReader struct {
	io.ReadCloser
	progress *progress
}

// Read implements io.Reader.
func (r countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.progress.add(int64(n))
	return n, err
}
