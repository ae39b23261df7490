// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

const (
	// maxPatternBytes is the maximum size of a regular expression. A parsed expression takes up to 200 times its size.
	maxPatternBytes = 64 << 10

	// compiling is the cost of an instruction of a pattern, in bytes of text: compiling it costs this many times more than
	// matching it.
	compiling = 32

	// groupEnds is the size, in bytes, of the two ends of a group. Package regexp keeps the ends of all groups for each
	// instruction of a pattern.
	groupEnds = 16

	// localInstructions is the largest number of instructions of a pattern whose searches read little: each instruction
	// outside of a last x* reads at most one character.
	localInstructions = 64

	// unicodeClass is the cost of a class such as \pL. It has up to 700 ranges.
	unicodeClass = 4096

	// foldedRange is the cost of a range of characters outside of ASCII in a pattern with the flag i: package regexp looks
	// for the other cases of each character.
	foldedRange = 1 << 17
)

// ignoresCase matches a flag i of a regular expression. wideRange matches the end of a range outside of ASCII.
var (
	ignoresCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)
	wideRange   = regexp.MustCompile(`-(?:\\x|[^\x00-\x7f])`)
)

// pattern is what is known about a regular expression before it is compiled.
type pattern struct {
	// instructions and groups are upper limits of their numbers.
	instructions, groups int

	// isLocal is true if a search reads hardly more text than the match that it finds. Otherwise, each search may read the
	// whole rest of the text.
	isLocal bool
}

// patternOf returns what is known about a regular expression. The cost of finding this out is at most cost. An
// expression that is not valid has no instructions. ok is false if the expression is too expensive.
func patternOf(text string) (p pattern, cost int, ok bool) {
	classes := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	cost = times(len(text), compiling) + times(classes, unicodeClass)
	if ignoresCase.MatchString(text) {
		cost += times(len(wideRange.FindAllStringIndex(text, -1)), foldedRange)
	}
	if len(text) > maxPatternBytes || cost > maxWork {
		return p, cost, false
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p, cost, true
	}
	p = pattern{instructions: instructions(parsed), groups: parsed.MaxCap() + 1}
	p.isLocal = p.instructions <= localInstructions && isLocal(parsed)
	return p, cost, true
}

// instructions returns the largest number of instructions of a compiled expression. Package regexp repeats x{2,5} five
// times and x{1000,} a thousand times.
func instructions(re *syntax.Regexp) int {
	n := 2
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpRepeat:
		n = times(n, max(re.Max, re.Min, 1)+1)
	}
	return n
}

// isLocal reports whether only the last part of an expression, or of each of its alternatives, may repeat for ever.
func isLocal(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		return !repeats(re.Sub[0])
	case syntax.OpConcat:
		last := len(re.Sub) - 1
		for _, sub := range re.Sub[:last] {
			if repeats(sub) {
				return false
			}
		}
		return isLocal(re.Sub[last])
	}
	for _, sub := range re.Sub {
		if !isLocal(sub) {
			return false
		}
	}
	return true
}

// repeats reports whether a part of an expression may repeat for ever.
func repeats(re *syntax.Regexp) bool {
	if re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0 {
		return true
	}
	for _, sub := range re.Sub {
		if repeats(sub) {
			return true
		}
	}
	return false
}

// matching limits the work and the memory of a function that searches once.
func matching(args []any) int {
	p, cost, ok := patternOf(textAt(args, 0))
	if !ok {
		return cost
	}
	return cost + p.work(len(textAt(args, 1)))
}

// work limits the work and the memory of one search in a text with a length.
func (p pattern) work(length int) int {
	return max(times(p.instructions, length+compiling), times(times(p.instructions, groupEnds), p.groups))
}

// searching limits the work and the memory of a function that finds all matches. Each search after a match may read the
// whole rest of the text, so it counts the matches: one, two, four and so on.
func searching(args []any) int {
	expression, text := textAt(args, 0), textAt(args, 1)
	p, cost, ok := patternOf(expression)
	if !ok {
		return cost
	}
	once := p.work(len(text))
	if p.isLocal || p.instructions == 0 || once > maxWork {
		return cost + once
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return cost
	}
	for n := 1; ; n *= 2 {
		if cost += times(once, n); cost > maxWork || len(compiled.FindAllStringIndex(text, n)) < n {
			return cost
		}
	}
}

// replacing is searching for the functions that replace text. They also copy the text and the replacements.
func replacing(args []any) int {
	return max(searching(args), times(len(textAt(args, 1))+1, len(textAt(args, 2))+1))
}

// growth limits the result of the regular expression functions that replace text.
func growth(args []any) int {
	return times(len(textAt(args, 1))+1, len(textAt(args, 2))+1)
}

// trimmed is the work of functions that look for each character of a text in a set.
func trimmed(args []any) int {
	set := textAt(args, 0)
	if !strings.ContainsFunc(set, func(c rune) bool { return c > 0x7f }) {
		return 0
	}
	return times(len(set), len(textAt(args, 1)))
}
