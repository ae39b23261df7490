// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package yamlweight tells what parsing YAML yields at most, before it is parsed: some bytes of text with aliases can
// stand for gigabytes.
package yamlweight

import (
	"errors"
	"regexp"

	"go.yaml.in/yaml/v3"
)

// Most stands for all greater weights.
const Most = 1 << 40

// ErrCycle means that an anchor contains itself.
var ErrCycle = errors.New("it has an anchor that contains itself")

var (
	// anchor and alias are found wherever YAML can have them, and in some other text.
	anchor = regexp.MustCompile(`&[0-9A-Za-z_-]`)
	alias  = regexp.MustCompile(`(?:^|[^0-9A-Za-z_*&])\*[0-9A-Za-z_-]`)
)

// Weight is what parsing text yields at most.
type Weight struct {
	// Bytes is the size of all texts in it, Values the number of values.
	Bytes  int64
	Values int
}

// Plus returns the sum of two weights, at most Most.
func (w Weight) Plus(other Weight) Weight {
	return Weight{Bytes: min(w.Bytes+other.Bytes, Most), Values: min(w.Values+other.Values, Most)}
}

// Max returns the greater of each.
func (w Weight) Max(other Weight) Weight {
	return Weight{Bytes: max(w.Bytes, other.Bytes), Values: max(w.Values, other.Values)}
}

// Of returns the weight of a text that has no aliases.
func Of(text []byte) Weight { return Weight{Bytes: int64(len(text)), Values: countTokens(text)} }

// HasAliases tells whether a text may have aliases.
func HasAliases(text []byte) bool { return anchor.Match(text) && alias.Match(text) }

// Expanded returns the weight of a document with its aliases replaced by what they stand for. The error is ErrCycle, or
// that of the parser.
func Expanded(text []byte) (Weight, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return Weight{}, err
	}
	expanded, ok := expansion{}.of(&root)
	if !ok {
		return Weight{}, ErrCycle
	}
	return expanded, nil
}

// countTokens returns a number that half the values of a YAML or JSON text do not
// exceed: that of the signs that separate or open values, also where they stand in
// comments and strings, for telling these apart takes a parser.
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

// expansion remembers the weight of anchored nodes. Nodes whose weight is not
// known yet are in it as nil.
type expansion map[*yaml.Node]*Weight

// of returns the weight of a node with its aliases followed, or false for a node
// that contains itself.
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
	total := Weight{Bytes: int64(len(node.Value)), Values: 1}
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
