// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// maxLogLines is the number of Helm's log lines that a LogBuffer keeps. The last lines have the cause of a failure.
	maxLogLines = 10
	// maxLogLine is the maximum length of a line, in bytes. A longer line is redacted before it is cut: a cut secret would
	// not be found. maxRawLine is the maximum length of a line that is kept until it is needed.
	maxLogLine, maxRawLine = 300, 16 << 10
)

// SilenceHelm discards everything that the Helm SDK writes to Go's standard logger, because some warnings quote values
// and no option disables them. Call SilenceHelm once when the process starts. It also discards log lines of other code
// that uses the standard logger.
func SilenceHelm() { log.SetOutput(io.Discard) }

// LogBuffer keeps the last lines that Helm logged. It removes values when the lines are needed, which is only after a
// failure: an index of many values takes much memory.
type LogBuffer struct {
	mu       sync.Mutex
	Redactor redactor
	lines    []string
}

// Hide makes the buffer remove the sensitive values from all later log lines and errors.
func (b *LogBuffer) Hide(values map[string]any) { b.add(NewRedactor(values, nil)) }

// HideAll makes the buffer remove all values from all later log lines and errors, and the keys that may be secret. It
// is for values if some of them may come from a Secret, and HelmOp does not know which.
func (b *LogBuffer) HideAll(values map[string]any) {
	b.add(NewRedactor(nil, redaction.AppendKeys([]any{values}, values)))
}

func (b *LogBuffer) add(more redactor) {
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
		// The arguments contain the entire Secret.
		format, args = "a release record cannot be decoded", nil
	}
	text := fmt.Sprintf(format, args...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(text) > maxRawLine {
		text = truncate.Text(b.Redactor.text(text), maxLogLine)
	}
	if n := len(b.lines); n > 0 && b.lines[n-1] == text {
		return
	}
	b.lines = append(b.lines, text)
	if len(b.lines) > maxLogLines {
		b.lines = b.lines[1:]
	}
}

// Last returns the last lines without values, oldest first.
func (b *LogBuffer) Last() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, line := range b.lines {
		lines = append(lines, truncate.Text(b.Redactor.text(line), maxLogLine))
	}
	return slices.Compact(lines)
}
