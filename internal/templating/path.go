// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"strconv"
	"strings"
)

// valuesPath is a path in values. It starts with a key.
type valuesPath []pathStep

// pathStep is a key of a map, or an index of a list.
type pathStep struct {
	key     string
	index   int
	isIndex bool
}

// parsePath parses a targetPath: keys that are separated by dots. Each key can be followed by indices in brackets.
// After a backslash, the next character is a part of the key. The result of an empty path is nil. The errors contain no
// part of the path.
func parsePath(text string) (valuesPath, error) {
	if text == "" {
		return nil, nil
	}
	var path valuesPath
	for rest := text; ; {
		key, after, err := cutKey(rest)
		if err != nil {
			return nil, err
		}
		path = append(path, pathStep{key: key})
		for strings.HasPrefix(after, "[") {
			digits, behind, found := strings.Cut(after[1:], "]")
			index, err := strconv.ParseUint(digits, 10, 16)
			if !found || err != nil || index > maxPathIndex {
				return nil, faultf(ReasonInvalidTemplate, "has an index that is not a number from 0 to %d in brackets",
					maxPathIndex)
			}
			path = append(path, pathStep{index: int(index), isIndex: true})
			after = behind
		}
		switch {
		case len(path) > maxPathSteps:
			return nil, faultf(ReasonLimitExceeded, "has more than %d keys and indices", maxPathSteps)
		case after == "":
			return path, nil
		case after[0] != '.':
			return nil, faultf(ReasonInvalidTemplate, "has a character other than a dot or a bracket after an index")
		}
		rest = after[1:]
	}
}

// cutKey cuts the first key from a path.
func cutKey(text string) (key, after string, err error) {
	var b strings.Builder
	i := 0
	for ; i < len(text) && text[i] != '.' && text[i] != '['; i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return "", "", faultf(ReasonInvalidTemplate, "ends with a backslash")
			}
		case ']', ',', '=':
			return "", "", faultf(ReasonInvalidTemplate, "has one of the characters ']', ',' and '='; put a backslash before it")
		}
		b.WriteByte(text[i])
	}
	if b.Len() == 0 {
		return "", "", faultf(ReasonInvalidTemplate, "has an empty key")
	}
	return b.String(), text[i:], nil
}

// filled returns the largest number of values that set adds to lists.
func (p valuesPath) filled() int {
	n := 0
	for _, step := range p {
		n += step.index
	}
	return n
}

// set sets the value at a path in current, and returns the changed current. If a value on the path has the wrong type,
// a map or a list replaces it. Lists are filled with null.
func (p valuesPath) set(current, value any) any {
	if len(p) == 0 {
		return value
	}
	step, rest := p[0], p[1:]
	if !step.isIndex {
		m, ok := current.(map[string]any)
		if !ok || m == nil {
			m = map[string]any{}
		}
		m[step.key] = rest.set(m[step.key], value)
		return m
	}
	list, _ := current.([]any)
	for len(list) <= step.index {
		list = append(list, nil)
	}
	list[step.index] = rest.set(list[step.index], value)
	return list
}
