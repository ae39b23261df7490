// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Rule excludes fields from the comparison.
type Rule struct {
	// Paths are JSON pointers (RFC 6901) of fields; the empty string is the whole object.
	Paths []string
	// Target selects objects of the manifest; nil selects all.
	Target *inventory.Selector
}

// Rules are compiled rules. The zero value and nil exclude nothing. They are safe for concurrent use.
type Rules struct {
	rules []compiledRule
}

type compiledRule struct {
	matcher  *inventory.Matcher
	pointers [][]string
	whole    bool
}

// NewRules compiles rules. The error names the invalid rule and the cause.
func NewRules(rules []Rule) (*Rules, error) {
	compiled := &Rules{rules: make([]compiledRule, 0, len(rules))}
	for i, rule := range rules {
		var selector inventory.Selector
		if rule.Target != nil {
			selector = *rule.Target
		}
		matcher, err := selector.Compile()
		if err != nil {
			return nil, fmt.Errorf("ignore[%d].target.%w", i, err)
		}
		c := compiledRule{matcher: matcher}
		for j, path := range rule.Paths {
			pointer, err := parsePointer(path)
			if err != nil {
				return nil, fmt.Errorf("ignore[%d].paths[%d]: %w", i, j, err)
			}
			c.whole = c.whole || len(pointer) == 0
			c.pointers = append(c.pointers, pointer)
		}
		compiled.rules = append(compiled.rules, c)
	}
	return compiled, nil
}

// forObject returns the fields of an object that are excluded. whole is true if the whole object is excluded.
func (r *Rules) forObject(obj *unstructured.Unstructured) (pointers [][]string, whole bool) {
	if r == nil {
		return nil, false
	}
	for _, rule := range r.rules {
		if !rule.matcher.Matches(obj) {
			continue
		}
		if rule.whole {
			return nil, true
		}
		pointers = append(pointers, rule.pointers...)
	}
	return pointers, false
}
