// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrepo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// maxLine and maxItem bound a line, and the needed part of an entry, in bytes. Icons in an index may be long.
	maxLine = 1 << 20
	maxItem = 64 << 10
	// maxURLs and maxURL bound the URLs of an entry, and one of them in bytes.
	maxURLs = 8
	maxURL  = 2048
	// maxChart and maxVersion bound the names of charts and versions, in bytes.
	maxChart   = 253
	maxVersion = 128
	// entryOverhead is about the memory for an entry besides its texts, in bytes.
	entryOverhead = 160
)

// entry is the part of an index entry that is kept in memory: one version of a chart.
type entry struct {
	version string
	// digest is "sha256:…"; empty if the index has none.
	digest string
	// created is the time of the entry, as in the index.
	created string
	urls    []string
}

// catalog has the entries of each chart, in the order of the index.
type catalog struct {
	charts map[string][]entry
	// skipped counts the entries that cannot be read.
	skipped int
	bytes   int64

	// room is the number of reserved bytes. reserve reserves more memory: its argument is the new total.
	room    int64
	reserve func(bytes int64) error
}

// formatError means that a file is not an index, or is an index in a form that is not supported.
type formatError struct{ detail string }

func (e *formatError) Error() string { return e.detail }

func notAnIndex(format string, args ...any) error { return &formatError{fmt.Sprintf(format, args...)} }

var (
	hexDigest      = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)
	versionPattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*$`)
)

// rawEntry holds the keys of an entry that the package needs.
type rawEntry struct {
	Version string   `json:"version"`
	Digest  string   `json:"digest"`
	URLs    []string `json:"urls"`
	Created any      `json:"created"`
}

// neededKeys are the keys of rawEntry.
var neededKeys = map[string]bool{"version": true, "digest": true, "urls": true, "created": true}

// add adds an entry of a chart. Entries that no reference can select are skipped. Of two entries with the same version,
// the first counts, as in Helm.
func (c *catalog) add(chart string, raw *rawEntry) error {
	digest := strings.ToLower(raw.Digest)
	if len(raw.URLs) == 0 || len(raw.Version) > maxVersion || !versionPattern.MatchString(raw.Version) ||
		digest != "" && !hexDigest.MatchString(digest) {
		c.skipped++
		return nil
	}
	if digest != "" {
		digest = "sha256:" + strings.TrimPrefix(digest, "sha256:")
	}
	added := entry{version: raw.Version, digest: digest}
	if text := fmt.Sprint(raw.Created); digest == "" && raw.Created != nil && len(text) <= maxVersion {
		added.created = text // needed only to notice a change of an entry without a digest
	}
	size := int64(entryOverhead + len(added.version) + len(added.digest) + len(added.created))
	if len(c.charts[chart]) == 0 {
		size += int64(entryOverhead + len(chart))
	}
	for _, url := range raw.URLs[:min(len(raw.URLs), maxURLs)] {
		if len(url) <= maxURL {
			added.urls = append(added.urls, url)
			size += int64(len(url))
		}
	}
	if c.bytes += size; c.bytes > maxIndex {
		return tooLarge("its entries need more than %d MiB", maxIndex>>20)
	}
	if err := c.grow(); err != nil {
		return err
	}
	c.charts[chart] = append(c.charts[chart], added)
	return nil
}

// grow reserves memory for the entries. Near the largest possible reservation, it reserves only what they need.
func (c *catalog) grow() error {
	if c.bytes <= c.room {
		return nil
	}
	c.room = min(c.bytes+roomStep, maxIndex)
	err := c.reserve(c.room)
	if errors.Is(err, bytebudget.ErrTooLarge) {
		c.room = c.bytes
		err = c.reserve(c.room)
	}
	return err
}

// parseIndex reads an index in YAML or JSON as a stream. reserve reserves memory: its argument is the new total in
// bytes.
func parseIndex(from io.Reader, reserve func(bytes int64) error) (*catalog, error) {
	buffered := bufio.NewReaderSize(from, 64<<10)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\ufeff" {
		_, _ = buffered.Discard(len(mark)) // they were peeked
	}
	start, err := buffered.Peek(512) // an error does not matter: a short index has fewer bytes
	if len(start) == 0 {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return nil, notAnIndex("the file is empty")
	}
	found := &catalog{charts: map[string][]entry{}, reserve: reserve}
	if trimmed := bytes.TrimLeft(start, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		return found, parseJSON(buffered, found)
	}
	lines := bufio.NewScanner(buffered)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	p := &yamlParser{catalog: found}
	for lines.Scan() {
		if err := p.line(lines.Text()); err != nil {
			return nil, err
		}
		if p.isDone {
			break
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, tooLarge("a line has more than %d bytes", maxLine)
	case err != nil:
		return nil, err
	}
	if err := p.endItem(); err != nil {
		return nil, err
	}
	if !p.hasEntries {
		return nil, notAnIndex("the file has no \"entries\"")
	}
	return found, nil
}

// yamlParser reads the lines of an index. Indexes have 20 MB and more, and a YAML parser would need twenty times the
// memory. So the parser finds the entries by their indentation, which YAML requires for nested blocks. yamlParser gives
// only the needed keys of each entry to the YAML parser.
type yamlParser struct {
	*catalog
	hasEntries, isDone bool
	// isInside is true below the key "entries".
	isInside bool
	// chartIndent and itemIndent are the columns of the names of charts and of the dashes; -1 if not known yet.
	chartIndent, itemIndent int
	chart                   string

	// keyIndent is the column of the keys of the current entry; 0 without an entry.
	keyIndent int
	// isOpen is true before the first key of an entry, if the dash of the entry is on a separate line.
	isOpen bool
	// isFlow is true for an entry in braces, which is kept as a whole.
	isFlow bool
	isKept bool
	item   strings.Builder
}

// line reads the next line.
func (p *yamlParser) line(line string) error {
	text := strings.TrimLeft(strings.TrimSuffix(line, "\r"), " ")
	indent := len(line) - len(strings.TrimLeft(line, " "))
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case indent == 0 && text[0] != '-':
		return p.topLevel(text)
	case strings.HasPrefix(line, "---"):
		p.isDone = p.hasEntries // a second document
		return nil
	case !p.isInside:
		return nil
	case text[0] == '#' && (p.keyIndent == 0 || indent <= p.keyIndent): // deeper, it may be text in a value
		return nil
	}
	if p.chartIndent < 0 {
		p.chartIndent = indent
	}
	switch isDash := text == "-" || strings.HasPrefix(text, "- "); {
	case indent == p.chartIndent && !isDash:
		return p.beginChart(text)
	case isDash && p.chart != "" && (p.itemIndent < 0 || indent == p.itemIndent):
		return p.beginItem(text, indent)
	case p.keyIndent == 0:
		return notAnIndex("\"entries\" has a form that is not supported: it must be a block of lists of versions")
	}
	return p.itemLine(text, indent)
}

// topLevel reads a line without indentation.
func (p *yamlParser) topLevel(text string) error {
	if text[0] == '#' || text[0] == '%' {
		return nil
	}
	if strings.HasPrefix(text, "...") {
		p.isDone = true
		return nil
	}
	if err := p.endItem(); err != nil {
		return err
	}
	key, value := splitKey(text)
	if p.isInside = key == "entries"; !p.isInside {
		return nil
	}
	p.hasEntries, p.chart, p.chartIndent, p.itemIndent = true, "", -1, -1
	switch value {
	case "":
	case "{}", "null", "~":
		p.isInside = false
	default:
		return notAnIndex("\"entries\" has a form that is not supported: it must be a block, not %q", clip(value))
	}
	return nil
}

func (p *yamlParser) beginChart(text string) error {
	if err := p.endItem(); err != nil {
		return err
	}
	name, value := splitKey(text)
	if name == "" || len(name) > maxChart || value != "" && value != "[]" && value != "null" {
		return notAnIndex("the entry %q of \"entries\" has a form that is not supported", clip(text))
	}
	p.chart, p.itemIndent = strings.Clone(name), -1 // a substring would keep the whole line in memory
	return nil
}

func (p *yamlParser) beginItem(text string, indent int) error {
	if err := p.endItem(); err != nil {
		return err
	}
	rest := strings.TrimLeft(text[1:], " ")
	p.itemIndent, p.isKept, p.isFlow = indent, false, false
	p.keyIndent, p.isOpen = indent+1, true
	if rest == "" {
		return nil
	}
	return p.itemLine(rest, indent+len(text)-len(rest))
}

// itemLine reads a line of an entry.
func (p *yamlParser) itemLine(text string, indent int) error {
	if p.isOpen && indent >= p.keyIndent {
		p.isOpen, p.keyIndent, p.isFlow = false, indent, text[0] == '{'
	}
	switch {
	case p.isFlow:
		p.isKept = true
	case indent < p.keyIndent:
		return notAnIndex("the indentation of an entry of chart %q is not supported", clip(p.chart))
	case indent == p.keyIndent && text[0] != '-': // a dash continues the list of the last key
		key, _ := splitKey(text)
		p.isKept = neededKeys[key]
	}
	if !p.isKept {
		return nil
	}
	if p.item.Len()+len(text)+indent > maxItem {
		return tooLarge("an entry of chart %q has more than %d bytes", clip(p.chart), maxItem)
	}
	p.item.WriteString(strings.Repeat(" ", max(indent-p.keyIndent, 0)))
	p.item.WriteString(text)
	p.item.WriteByte('\n')
	return nil
}

// endItem adds the current entry, if there is one.
func (p *yamlParser) endItem() error {
	if p.keyIndent == 0 {
		return nil
	}
	text := p.item.String()
	p.item.Reset()
	p.keyIndent = 0
	var raw rawEntry
	// The entry can expand to gigabytes.
	if data := []byte(text); yamlweight.HasAliases(data) || yamlweight.Refusal(data) != nil {
		p.skipped++
		return nil //nolint:nilerr // The entry is skipped.
	}
	if err := yaml.Unmarshal([]byte(text), &raw); err == nil {
		return p.add(p.chart, &raw)
	}
	p.skipped++
	return nil
}

// splitKey returns the key and the value of a line "key: value", without quotes around the key and without a comment.
func splitKey(text string) (key, value string) {
	if quote := text[0]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(text[1:], quote)
		if end < 0 {
			return "", ""
		}
		key, text = text[1:end+1], text[end+2:]
		rest, ok := strings.CutPrefix(strings.TrimLeft(text, " "), ":")
		if !ok {
			return "", ""
		}
		return key, plainValue(rest)
	}
	end := strings.Index(text+" ", ": ")
	if end < 0 {
		return "", ""
	}
	return strings.TrimRight(text[:end], " "), plainValue(text[end+1:])
}

func plainValue(text string) string {
	value := strings.TrimSpace(text)
	if strings.HasPrefix(value, "#") {
		return ""
	}
	before, _, _ := strings.Cut(value, " #")
	return strings.TrimSpace(before)
}

// parseJSON reads an index in JSON, entry by entry.
func parseJSON(from io.Reader, into *catalog) error {
	pieces := &pieceReader{from: from}
	decoder := json.NewDecoder(pieces)
	hasEntries := false
	err := eachKey(decoder, pieces, func(key string) error {
		if key != "entries" {
			return skipValue(decoder, pieces)
		}
		hasEntries = true
		return eachKey(decoder, pieces, func(chart string) error {
			if len(chart) > maxChart {
				return notAnIndex("the name of a chart has more than %d bytes", maxChart)
			}
			return eachItem(decoder, func() error {
				var raw rawEntry
				pieces.reset()
				if err := decoder.Decode(&raw); isTypeError(err) {
					into.skipped++
					return nil
				} else if err != nil {
					return err
				}
				return into.add(chart, &raw)
			})
		})
	})
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return notAnIndex("the file is not valid JSON")
	case err == nil && !hasEntries:
		return notAnIndex("the file has no \"entries\"")
	}
	return err
}

func isTypeError(err error) bool {
	var wrong *json.UnmarshalTypeError
	return errors.As(err, &wrong)
}

// eachKey calls fn for each key of the next value, which is an object or null. fn reads the value of the key.
func eachKey(decoder *json.Decoder, pieces *pieceReader, fn func(key string) error) error {
	pieces.reset()
	open, err := decoder.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('{') {
		return notAnIndex("the file has a list or a text in place of an object")
	}
	for decoder.More() {
		pieces.reset()
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := fn(name); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

// eachItem calls fn for each item of the next value, which is a list or null. fn reads the item.
func eachItem(decoder *json.Decoder, fn func() error) error {
	open, err := decoder.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return notAnIndex("the versions of a chart are not a list")
	}
	for decoder.More() {
		if err := fn(); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}

func skipValue(decoder *json.Decoder, pieces *pieceReader) error {
	pieces.reset()
	var skipped json.RawMessage
	return decoder.Decode(&skipped)
}

// pieceReader bounds the bytes between two calls of reset, because a decoder keeps a whole value in memory.
type pieceReader struct {
	from io.Reader
	read int
}

func (r *pieceReader) reset() { r.read = 0 }

// Read implements io.Reader.
func (r *pieceReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if r.read += n; r.read > maxLine {
		return 0, tooLarge("an entry has more than %d bytes", maxLine)
	}
	return n, err
}

// clip shortens text of an index for a message.
func clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}
