// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package celexpr

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// The costs of parts of a regular expression that take long to parse.
const (
	characterCost = 2
	// unicodeCost is the cost of a class such as "\pL", which has hundreds of ranges.
	unicodeCost = 200
	// foldedCost is the cost of a character outside ASCII if the expression has classes and ignores case. The character
	// can be the end of a range such as "[B-\x{1e943}]". The parser then examines each of the 125,000 characters of the
	// range.
	foldedCost = 3000
)

// ignoresCase matches regular expressions that may ignore case.
var ignoresCase = regexp.MustCompile(`\(\?[imsU-]*i`)

// match implements the function "matches". It refuses an expensive call before it compiles the regular expression: a
// short expression can have hundreds of thousands of instructions.
func match(args ...ref.Val) ref.Val {
	text, ok := args[0].(traits.Matcher)
	if !ok {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if matchCost(args[0], args[1]) > maxCost {
		refuse()
	}
	return text.Match(args[1])
}

// matchCost returns the cost to compile a regular expression and to match it with a text. The cost to match is the
// number of instructions, for each 100 bytes of the text.
func matchCost(text, pattern ref.Val) int {
	t, _ := text.(types.String)
	p, _ := pattern.(types.String)
	cost := parseCost(string(p))
	if cost > maxCost {
		return cost
	}
	parsed, err := syntax.Parse(string(p), syntax.Perl)
	if err != nil {
		return cost
	}
	return cost + instructions(parsed)*(1+len(t)/100)
}

// parseCost returns the cost to parse a regular expression.
func parseCost(pattern string) int {
	cost := len(pattern) * characterCost
	cost += (strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)) * unicodeCost
	if strings.Contains(pattern, "[") && ignoresCase.MatchString(pattern) {
		others := strings.Count(pattern, `\x`) + len(pattern) - utf8.RuneCountInString(pattern)
		cost += others * foldedCost
	}
	return cost
}

// instructions estimates the number of instructions of a regular expression. It does not expand repetitions. The parser
// limits them to 1,000 in all, also if they are nested.
func instructions(re *syntax.Regexp) int {
	count := 1 + len(re.Sub)
	if re.Op == syntax.OpLiteral {
		count += len(re.Rune)
	}
	for _, sub := range re.Sub {
		count += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		count *= max(1, re.Min+1, re.Max)
	}
	return count
}
