// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	yaml "go.yaml.in/yaml/v3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// yamlReader parses one YAML document into canonical values, like Helm parses a values file. There are two exceptions:
// duplicate keys are errors, and a key is its literal text (a key "on" is not "true").
type yamlReader struct {
	// expand replaces placeholders in a scalar and reports whether there were any. It may stop when the result is longer
	// than limit bytes. If expand is nil, nothing is replaced.
	expand func(text string, limit int) (string, bool)

	nodes int
	bytes int
}

// ParseValues parses the data of a ValuesSource without a TargetPath, with the same result and the same limits as a
// rendering. The error contains no data.
func ParseValues(data []byte) (map[string]any, error) { return new(yamlReader).readMap(string(data)) }

// largeTree is held while the tree of a large text exists, see isLarge. So only one such tree is in use, and the others
// are garbage.
var largeTree sync.Mutex

// isLarge reports whether the tree of a text may have more than maxNodes values. The YAML library builds the whole tree
// before the yamlReader counts its values. A text of 1 MiB can have a million values, and their tree takes up to 200
// MiB. Commas in strings count too, so a large text may be valid.
func isLarge(text []byte) bool { return 2*yamlweight.Of(text).Values > maxNodes }

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// yamlCauses are the errors of the YAML library that contain no text of the document. The value is the number to add to
// the line in the error. The library counts lines from 0. It adds 1 only to the lines of its scanner, and not to those
// of its parser. It omits the line 0.
var yamlCauses = map[string]int{
	"did not find expected key":              1,
	"did not find expected node content":     1,
	"did not find expected ',' or ']'":       1,
	"did not find expected ',' or '}'":       1,
	"did not find expected '-' indicator":    1,
	"did not find expected <document start>": 1,

	"block sequence entries are not allowed in this context":       0,
	"could not find expected ':'":                                  0,
	"found a tab character that violates indentation":              0,
	"found a tab character where an indentation space is expected": 0,
	"found character that cannot start any token":                  0,
	"found unexpected end of stream":                               0,
	"found unknown escape character":                               0,
	"mapping keys are not allowed in this context":                 0,
	"mapping values are not allowed in this context":               0,
}

// readMap parses a document that must be a map. The result of an empty document is an empty map.
func (r *yamlReader) readMap(data string) (map[string]any, error) {
	v, err := r.read(data)
	if err != nil {
		return nil, err
	}
	switch m := v.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return m, nil
	}
	return nil, faultf(ReasonInvalidValues, "is not a map of values")
}

// read parses a document. Its errors contain a line and a cause, but no text of the document, because the text may be
// secret.
func (r *yamlReader) read(data string) (v any, err error) {
	if len(data) > maxDocumentBytes {
		return nil, faultf(ReasonLimitExceeded, "is larger than %d bytes", maxDocumentBytes)
	}
	// The yamlReader bounds aliases. But the library itself repeats the prefix of a %TAG directive for each value.
	text := []byte(data)
	switch err := yamlweight.Refusal(text); {
	case errors.Is(err, yamlweight.ErrEncoding):
		return nil, faultf(ReasonInvalidValues, "is not UTF-8 text")
	case err != nil:
		return nil, faultf(ReasonInvalidValues, "has a %%TAG directive; use full tags")
	}
	if isLarge(text) {
		largeTree.Lock()
		defer largeTree.Unlock()
	}
	defer func() {
		if recover() != nil { // a panic of the YAML library must not end the manager
			v, err = nil, faultf(ReasonInvalidValues, "is not valid YAML")
		}
	}()
	var doc yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(data))
	if err := decoder.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, yamlFault(data, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, yamlFault(data, err)
		}
		return nil, faultf(ReasonInvalidValues, "has more than one YAML document")
	}
	return r.value(&doc, 0)
}

// yamlFault converts an error of the YAML library. The line of an error at the end of the document is its last line.
func yamlFault(data string, err error) *fault {
	f := faultf(ReasonInvalidValues, "is not valid YAML")
	parts := yamlError.FindStringSubmatch(err.Error())
	if parts == nil {
		return f
	}
	f.line, _ = strconv.Atoi(parts[1]) // the expression matches digits only; 0 means that the line is not known
	if add, ok := yamlCauses[parts[2]]; ok {
		last := strings.Count(strings.TrimRight(data, "\n"), "\n") + 1
		f.cause += ": " + parts[2]
		f.line = min(max(f.line+add, 1), last)
	}
	return f
}

func (r *yamlReader) fail(n *yaml.Node, reason Reason, format string, args ...any) error {
	return &fault{reason: reason, cause: fmt.Sprintf(format, args...), line: n.Line}
}

func (r *yamlReader) value(n *yaml.Node, depth int) (any, error) {
	// Aliases are expanded, so a few aliases can yield any number of values.
	if r.nodes++; r.nodes > maxNodes {
		return nil, r.fail(n, ReasonLimitExceeded, "has more than %d values", maxNodes)
	}
	if depth > maxDepth {
		return nil, r.fail(n, ReasonLimitExceeded, "is nested deeper than %d levels", maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return r.value(n.Content[0], depth)
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return r.mapping(n, depth)
	}
	return r.scalar(n)
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (any, error) {
	own := make(map[string]any, len(n.Content)/2)
	merged := map[string]any{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, e := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" {
			if err := r.mergeKey(merged, e, depth); err != nil {
				return nil, err
			}
			continue
		}
		key, err := r.key(k)
		if err != nil {
			return nil, err
		}
		if _, twice := own[key]; twice {
			return nil, r.fail(k, ReasonInvalidValues, "gives a key twice")
		}
		if own[key], err = r.value(e, depth+1); err != nil {
			return nil, err
		}
	}
	for k, v := range own {
		merged[k] = v
	}
	return merged, nil
}

// mergeKey adds the values of a "<<" key. In a list, the first map takes precedence.
func (r *yamlReader) mergeKey(into map[string]any, n *yaml.Node, depth int) error {
	v, err := r.value(n, depth+1)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return r.fail(n, ReasonInvalidValues, "merges what is not a map")
		}
		for k, v := range m {
			if _, known := into[k]; !known {
				into[k] = v
			}
		}
	}
	return nil
}

func (r *yamlReader) key(n *yaml.Node) (string, error) {
	for hops := 0; n.Kind == yaml.AliasNode && hops < maxDepth; hops++ {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", r.fail(n, ReasonInvalidValues, "has a key that is not a string")
	}
	s, _, err := r.text(n)
	return s, err
}

// text returns the text of a scalar, and whether it had placeholders.
func (r *yamlReader) text(n *yaml.Node) (s string, expanded bool, err error) {
	s = n.Value
	if r.expand != nil {
		s, expanded = r.expand(s, maxDocumentBytes-r.bytes)
	}
	// An alias expands the placeholders of its scalar again, also if they are empty.
	if r.bytes += max(len(s), len(n.Value)); r.bytes > maxDocumentBytes {
		return "", false, r.fail(n, ReasonLimitExceeded, "is larger than %d bytes", maxDocumentBytes)
	}
	return s, expanded, nil
}

func (r *yamlReader) scalar(n *yaml.Node) (any, error) {
	s, expanded, err := r.text(n)
	if err != nil {
		return nil, err
	}
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	tag := n.ShortTag()
	if expanded || tag == "!!str" && n.Style&(quoted|yaml.TaggedStyle) != 0 {
		return s, nil
	}
	switch tag {
	case "!!null":
		return nil, nil
	case "!!str":
		// Helm uses YAML 1.1, in which these are booleans.
		switch s {
		case "y", "Y", "yes", "Yes", "YES", "on", "On", "ON":
			return true, nil
		case "n", "N", "no", "No", "NO", "off", "Off", "OFF":
			return false, nil
		}
		return s, nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, r.fail(n, ReasonInvalidValues, "has a value that its tag does not allow")
		}
		c, err := canonical(v)
		if err != nil {
			return nil, r.fail(n, ReasonInvalidValues, "has a number that is not finite")
		}
		return c, nil
	case "!!timestamp":
		return s, nil
	}
	return nil, r.fail(n, ReasonInvalidValues, "has a tag that values cannot have")
}
