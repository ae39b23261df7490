// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

// Section is a document in a file.
type Section struct {
	// line is the number of the document's first line in the file, from 0.
	line int
	Text []byte
}

// Sections splits a YAML file into its documents. It works line by line, so each document has its position. The text of
// a document is valid until the next document: all of them share one copy of the file.
func Sections(text []byte) iter.Seq[Section] {
	return func(yield func(Section) bool) {
		begin, line := 0, 0
		current := make([]byte, 0, len(text)) // no line becomes longer
		for one := range bytes.Lines(text) {
			isBegin := isMarker(one, "---")
			if isBegin || isMarker(one, "...") {
				if !yield(Section{line: begin, Text: current}) {
					return
				}
				begin, current = line, current[:0]
			}
			switch {
			case isBegin:
				// Text after the marker belongs to the document.
				current = append(append(current, "   "...), one[3:]...)
			case isMarker(one, "..."), one[0] == '%' && isBlank(current):
				// Directives are dropped. A tag that needs a %TAG directive is then an error.
				current = append(current, '\n')
			default:
				current = append(current, one...)
			}
			line++
		}
		yield(Section{line: begin, Text: current})
	}
}

// isMarker is true if a line separates documents.
func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// isBlank is true if a text has only comments.
func isBlank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// IsManifestFile is true if a file with this name may hold objects.
func IsManifestFile(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// yamlLine matches the line and the text in a parser's error.
var yamlLine = regexp.MustCompile(`line (\d+): ([^\n]*)`)

// Documents calls visit for each non-empty document of a file. visit gets the position of the document and its content
// as JSON.
func (r *Reader) Documents(name string, text []byte, visit func(where string, content []byte) error) error {
	if path.Ext(name) == ".json" {
		return r.jsonDocuments(name, text, visit)
	}
	copied := int64(len(text))
	if err := r.memory.Parse(copied); err != nil {
		return err
	}
	r.memory.Keep(copied)
	defer r.memory.Keep(-copied)
	for one := range Sections(text) {
		if err := r.Admit(name, one.Text); err != nil {
			return err
		}
		content, err := yaml.YAMLToJSONStrict(one.Text)
		if err != nil {
			return notYAML(name, one.line, err)
		}
		if string(content) == "null" {
			continue
		}
		if err := visit(at(name, firstLine(one)), content); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) jsonDocuments(name string, text []byte, visit func(where string, content []byte) error) error {
	if err := r.Admit(name, text); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	lineAt := func(offset int64) int {
		return bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n")) + 1
	}
	for {
		before := decoder.InputOffset()
		var content json.RawMessage
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var wrong *json.SyntaxError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%w: %s is not JSON: %s", unpack.ErrInvalidManifests, at(name, lineAt(wrong.Offset)),
				unpack.Clip(wrong.Error()))
		}
		if err != nil {
			return fmt.Errorf("%w: %s is not complete JSON", unpack.ErrInvalidManifests, at(name, lineAt(int64(len(text)))))
		}
		skipped := len(text[before:]) - len(bytes.TrimLeft(text[before:], " \t\r\n"))
		if err := visit(at(name, lineAt(before+int64(skipped))), content); err != nil {
			return err
		}
	}
}

// Weigh adds the weight of a text to Total. It returns an error if a limit is exceeded.
func (r *Reader) Weigh(name string, text []byte) error {
	_, err := r.weigh(name, text)
	return err
}

// Admit is Weigh, and also reserves memory to parse the text. Call it before the text is parsed.
func (r *Reader) Admit(name string, text []byte) error {
	one, err := r.weigh(name, text)
	if err != nil {
		return err
	}
	return r.memory.Parse(one.ParseCost())
}

func (r *Reader) weigh(name string, text []byte) (unpack.Weight, error) {
	limits := r.limits
	limits.TextBytes, limits.TextTokens = limits.ManifestBytes, limits.ManifestTokens
	one, err := unpack.Weigh(name, text, limits, unpack.ErrInvalidManifests, r.memory)
	if err != nil {
		return unpack.Weight{}, err
	}
	r.Total = r.Total.Plus(one)
	return one, WithinLimits(r.Total, r.limits)
}

// WithinLimits returns ErrTooLarge if the manifests of an artifact exceed the limits.
func WithinLimits(w unpack.Weight, limits unpack.Limits) error {
	switch {
	case w.Bytes > limits.ManifestBytes:
		return fmt.Errorf("%w: its manifests have more than %d bytes", unpack.ErrTooLarge, limits.ManifestBytes)
	case w.Tokens > limits.ManifestTokens:
		return fmt.Errorf("%w: its manifests have more than %d values", unpack.ErrTooLarge, limits.ManifestTokens)
	}
	return nil
}

// notYAML returns the error for a document that is not YAML. begin is the line at which the document begins. The error
// names the line in the file.
func notYAML(name string, begin int, err error) error {
	line, what := begin+1, unpack.Clip(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	if found := yamlLine.FindStringSubmatch(err.Error()); found != nil {
		if n, convErr := strconv.Atoi(found[1]); convErr == nil {
			line, what = begin+n, unpack.Clip(found[2])
		}
	}
	return fmt.Errorf("%w: %s is not YAML: %s", unpack.ErrInvalidManifests, at(name, line), what)
}

// firstLine returns the line at which the content of a document begins, from 1. Comments count as content.
func firstLine(one Section) int {
	blank := len(one.Text) - len(bytes.TrimLeft(one.Text, " \t\r\n"))
	return one.line + 1 + bytes.Count(one.Text[:blank], []byte("\n"))
}

// at returns a position "file:line" for messages.
func at(name string, line int) string {
	return fmt.Sprintf("%s:%d", unpack.Clip(name), line)
}
