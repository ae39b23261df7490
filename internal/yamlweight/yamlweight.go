// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamlweight computes an upper bound for the size of parsed YAML, without parsing the YAML itself. It is needed
// because a few bytes with aliases can expand to gigabytes. Callers compare the weight with a limit before they parse a
// text.
package yamlweight

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Most is the largest weight. All larger weights are stored as Most.
const Most = 1 << 40

const (
	// parsedByte and parsedValue are the bytes of memory that a parse needs for each byte and for each value of a text.
	// They were measured with manifests of long texts, of short keys, of small maps and of small documents. parsedEscape
	// is the same for each byte that escapes add, measured with texts that have only characters to escape.
	parsedByte, parsedValue, parsedEscape = 7, 400, 5
)

// escapes has, for the first byte of each character, the number of bytes that an escape in JSON adds at most. Go
// escapes "<" as \u003c. A backslash may begin a short escape of YAML, such as \0. Of the characters with several
// bytes, line breaks and control characters are escaped. They begin with the same bytes as some other characters.
var escapes = func() (added [256]byte) {
	for c := range byte(' ') {
		added[c] = 5
	}
	added['<'], added['>'], added['&'], added[0x7f] = 5, 5, 5, 5
	added['"'], added['\n'], added['\r'], added['\t'] = 1, 1, 1, 1
	added['\\'], added[0xc2], added[0xe2], added[0xef] = 4, 4, 3, 3
	return added
}()

// The errors of this package.
var (
	// ErrCycle means that an anchor contains itself.
	ErrCycle = errors.New("it has an anchor that contains itself")
	// ErrTooLarge means that a text exceeds a limit.
	ErrTooLarge = errors.New("it is too large with its YAML aliases expanded")
	// ErrTag means that a text has a %TAG directive.
	ErrTag = errors.New("it has a %TAG directive; use full tags")
	// ErrEncoding means that a text is not UTF-8 text.
	ErrEncoding = errors.New("it is not UTF-8 text")
)

var (
	// anchor and alias match all anchors and aliases, and also some other text.
	anchor = regexp.MustCompile(`&[0-9A-Za-z_-]`)
	alias  = regexp.MustCompile(`(?:^|[^0-9A-Za-z_*&])\*[0-9A-Za-z_-]`)
	// tagDirective matches %TAG directives after all line breaks of YAML.
	tagDirective = regexp.MustCompile(`(?:^|[\n\r\x{85}\x{2028}\x{2029}\x{FEFF}])%TAG[ \t]`)
)

// Weight is an upper bound for the result of parsing a text.
type Weight struct {
	// Bytes is the total size of all scalars. Values is the number of values.
	Bytes  int64
	Values int
	// Escapes is the number of bytes that the text needs in addition if it is written as JSON, because of escapes. Parsers
	// convert YAML to JSON.
	Escapes int64
}

// Plus returns the sum of two weights, at most Most.
func (w Weight) Plus(other Weight) Weight {
	return Weight{Bytes: min(w.Bytes+other.Bytes, Most), Values: min(w.Values+other.Values, Most),
		Escapes: min(w.Escapes+other.Escapes, Most)}
}

// Max returns the maximum of each field.
func (w Weight) Max(other Weight) Weight {
	return Weight{Bytes: max(w.Bytes, other.Bytes), Values: max(w.Values, other.Values),
		Escapes: max(w.Escapes, other.Escapes)}
}

// ParseCost returns the estimated memory, in bytes, of a parse of a text of this weight: 7 for each byte of the text,
// 400 for each value, and 5 for each byte that escapes add. It includes the tree of nodes, the JSON text and the
// decoded values. At most half of it stays in memory after the parse.
func (w Weight) ParseCost() int64 {
	return w.Bytes*parsedByte + int64(w.Values)*parsedValue + w.Escapes*parsedEscape
}

// Of returns the weight of a text without aliases.
func Of(text []byte) Weight {
	return Weight{Bytes: int64(len(text)), Values: countTokens(text), Escapes: countEscapes(text)}
}

// HasAliases reports whether a text may have aliases. The text must be UTF-8 text, see [Refusal].
func HasAliases(text []byte) bool { return anchor.Match(text) && alias.Match(text) }

// Refusal returns why a text must not be parsed, whatever its size: [ErrEncoding] or [ErrTag]; nil if it may be parsed.
// Parsers also read UTF-16 text (YAML 1.2, section 5.2). The functions of this package would find no aliases in it.
func Refusal(text []byte) error {
	switch {
	case !utf8.Valid(text):
		return ErrEncoding
	case hasTag(text):
		return ErrTag
	default:
		return nil
	}
}

// hasTag reports whether a text has a %TAG directive. Parsers repeat the prefix in the directive for each node that
// uses it, so a short text can take gigabytes.
func hasTag(text []byte) bool {
	return bytes.Contains(text, []byte("%TAG")) && tagDirective.Match(text)
}

// Check returns an error if a text must not be parsed, or exceeds a limit with expanded aliases. It does not compare a
// text without aliases with the limit. The errors are ErrTooLarge and those of [Refusal] and [Expanded]. Errors of the
// parser may quote the text.
func Check(text []byte, most Weight) error {
	if err := Refusal(text); err != nil {
		return err
	}
	if !HasAliases(text) {
		return nil
	}
	weight, err := Expanded(text)
	if err == nil && (weight.Bytes > most.Bytes || weight.Values > most.Values) {
		err = ErrTooLarge
	}
	return err
}

// Expanded returns the weight of a text with expanded aliases. If the text has several documents, it returns their sum,
// because a parser may skip the first of them. The error is ErrCycle, or the error of the parser.
func Expanded(text []byte) (total Weight, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var root yaml.Node
		switch err := decoder.Decode(&root); {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return Weight{}, err
		}
		expanded, ok := expansion{}.of(&root)
		if !ok {
			return Weight{}, ErrCycle
		}
		total = total.Plus(expanded)
	}
}

// countTokens returns an upper bound for half of the values in a YAML or JSON text. It counts the characters that
// separate or open values. It also counts them in comments and strings, because only a parser can distinguish these.
func countTokens(text []byte) int {
	count := 0
	for i, sign := range text {
		switch sign {
		case '[', '{', ',', ':', '?':
			count++
		case '-': // an item of a list if no visible character follows
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] > '~' {
				count++
			}
		}
	}
	return count
}

// countEscapes returns an upper bound for the bytes that escapes add to a text if it is written as JSON.
func countEscapes[T []byte | string](text T) int64 {
	count := int64(0)
	for i := range len(text) {
		count += int64(escapes[text[i]])
	}
	return count
}

// expansion holds the weights of anchored nodes. A node whose weight is being computed has the
// value nil.
type expansion map[*yaml.Node]*Weight

// of returns the weight of a node with expanded aliases, or false if the node contains itself.
func (e expansion) of(node *yaml.Node) (Weight, bool) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Anchor != "" {
		known, seen := e[node]
		if seen && known == nil {
			return Weight{}, false
		}
		if seen {
			return *known, true
		}
		e[node] = nil
	}
	total := Weight{Bytes: int64(len(node.Value)), Values: 1, Escapes: countEscapes(node.Value)}
	for _, child := range node.Content {
		one, ok := e.of(child)
		if !ok {
			return Weight{}, false
		}
		total = total.Plus(one)
	}
	if node.Anchor != "" {
		e[node] = &total
	}
	return total, true
}
