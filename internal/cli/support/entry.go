// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// severity is the severity of a log entry. A larger number is more severe.
type severity int

// The severities, in the order of severityNames.
const (
	severityInfo severity = iota
	severityWarning
	severityError
)

// severityNames are the values of --level.
var severityNames = []string{"info", "warning", "error"}

// entry is an entry in the log of a manager. An entry is one line, or several lines in the format text if a value has
// several lines.
type entry struct {
	text     string
	severity severity

	// at is when the entry was written. It is zero if the log has no timestamps of Kubernetes.
	at time.Time

	// isWhole is false for a text that is not a complete entry, for example the rest of an entry whose beginning is not in
	// the log.
	isWhole bool

	// keys are the keys and values of the entry. Objects have the form "namespace/name".
	keys map[string]string
}

// textHeader matches the beginning of each entry in the format text.
var textHeader = regexp.MustCompile(`^([IWEF])[0-9]{4} [0-9:.]+ +[0-9]+ [^ \]]+\] `)

// newEntry parses an entry. An entry in an unknown format has no keys.
func newEntry(text string, at time.Time) entry {
	e := entry{text: text, at: at}
	if strings.HasPrefix(text, "{") {
		e.parseJSON()
		return e
	}
	header := textHeader.FindStringSubmatch(text)
	if header == nil {
		return e
	}
	e.isWhole = true
	switch header[1] {
	case "W":
		e.severity = severityWarning
	case "E", "F":
		e.severity = severityError
	}
	rest := text[len(header[0]):]
	if message, err := strconv.QuotedPrefix(rest); err == nil {
		e.keys = textKeys(rest[len(message):])
	}
	return e
}

// parseJSON parses an entry in the format JSON. Entries about errors have no verbosity.
func (e *entry) parseJSON() {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(e.text), &fields) != nil {
		return
	}
	e.isWhole = true
	if _, ok := fields["v"]; !ok {
		e.severity = severityError
	}
	e.keys = map[string]string{}
	for key, raw := range fields {
		var text string
		var object struct{ Namespace, Name string }
		switch {
		case json.Unmarshal(raw, &text) == nil:
			e.keys[key] = text
		case json.Unmarshal(raw, &object) == nil && object.Name != "":
			e.keys[key] = strings.TrimPrefix(object.Namespace+"/"+object.Name, "/")
		}
	}
}

// textKeys parses the keys and values of the format text: key="value" key=<value of several lines> key={"json":1}.
func textKeys(text string) map[string]string {
	keys := map[string]string{}
	for {
		key, rest, ok := strings.Cut(strings.TrimLeft(text, " "), "=")
		if !ok {
			return keys
		}
		keys[key], text = textValue(rest)
	}
}

// textValue returns the value at the beginning of a text, and the rest of the text.
func textValue(text string) (value, rest string) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		value, _ = strconv.Unquote(quoted)
		return value, text[len(quoted):]
	}
	if inner, ok := strings.CutPrefix(text, "<\n"); ok {
		value, rest, _ = strings.Cut(inner, "\n >")
		return value, rest
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	if decoder.Decode(&raw) == nil {
		return string(raw), text[decoder.InputOffset():]
	}
	value, rest, _ = strings.Cut(text, " ")
	return value, rest
}

// readEntries calls fn for each entry of a log, as soon as the entry is complete. If stamped is true, each line begins
// with the timestamp of Kubernetes.
func readEntries(log io.Reader, stamped bool, fn func(entry)) error {
	var (
		lines = bufio.NewReader(log)
		text  string
		at    time.Time
		// isOpen is true within a value of several lines.
		isOpen bool
	)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if line == "" {
			if isOpen {
				fn(newEntry(text, at))
			}
			return nil
		}
		line = strings.TrimSuffix(line, "\n")
		var lineAt time.Time
		if stamped {
			line, lineAt = cutTimestamp(line)
		}
		if isOpen && isContinuation(line) {
			text += "\n" + line
			isOpen = line[0] == '\t' || strings.HasSuffix(line, "=<")
		} else {
			if isOpen {
				fn(newEntry(text, at))
			}
			text, at = line, lineAt
			isOpen = strings.HasSuffix(line, "=<") && textHeader.MatchString(line)
		}
		if !isOpen {
			fn(newEntry(text, at))
		}
	}
}

// isContinuation reports whether a line is part of a value of several lines, or the end of such a value.
func isContinuation(line string) bool {
	return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, " >")
}

// cutTimestamp removes the timestamp of Kubernetes from a line.
func cutTimestamp(line string) (string, time.Time) {
	stamp, rest, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return line, time.Time{}
	}
	return rest, at
}

// parseSeverity returns the severity with a name.
func parseSeverity(name string) (severity, error) {
	i := slices.Index(severityNames, name)
	if i < 0 {
		return 0, fmt.Errorf("--level %q is unknown; use one of %s", name, strings.Join(severityNames, ", "))
	}
	return severity(i), nil
}
