// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"fmt"
	"io"
	"log"
	"strings"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxLogLines is the number of Helm's log lines that are kept: the end says what went wrong.
	maxLogLines = 10
	// maxLogLine bounds one line.
	maxLogLine = 300
)

// SilenceHelm discards what the Helm SDK writes to Go's standard logger, which no option turns off: among
// it are warnings that quote values. Call it once when the process starts; whatever else writes to the standard
// logger is discarded too.
func SilenceHelm() { log.SetOutput(io.Discard) }

// LogBuffer keeps the last lines that Helm logged, without values.
type LogBuffer struct {
	mu       sync.Mutex
	Redactor redactor
	lines    []string
}

// Hide keeps the sensitive ones among the values out of all that is logged and said from now on.
func (b *LogBuffer) Hide(values map[string]any) {
	more := NewRedactor(values, nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Redactor = b.Redactor.and(more)
}

// Text returns the text without values.
func (b *LogBuffer) Text(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Redactor.text(text)
}

// Printf is Helm's DebugLog.
func (b *LogBuffer) Printf(format string, args ...any) {
	if strings.Contains(format, "failed to decode release") {
		// Its arguments hold the entire Secret.
		format, args = "a release record cannot be decoded", nil
	}
	text := fmt.Sprintf(format, args...)
	b.mu.Lock()
	defer b.mu.Unlock()
	line := truncate.Text(b.Redactor.text(text), maxLogLine)
	if n := len(b.lines); n > 0 && b.lines[n-1] == line {
		return
	}
	b.lines = append(b.lines, line)
	if len(b.lines) > maxLogLines {
		b.lines = b.lines[1:]
	}
}

// Last returns the kept lines, oldest first.
func (b *LogBuffer) Last() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.lines...)
}
