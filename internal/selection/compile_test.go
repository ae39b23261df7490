// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	in := func(values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	many := func(value string, number int) *metav1.LabelSelector {
		return in(strings.Split(strings.TrimSuffix(strings.Repeat(value+",", number), ","), ",")...)
	}
	for name, tc := range map[string]struct {
		selector *metav1.LabelSelector
		matches  bool
		err      string
	}{
		"none":            {selector: nil},
		"empty":           {selector: &metav1.LabelSelector{}, matches: true},
		"labels":          {selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, matches: true},
		"the most values": {selector: many("b", maxTerms-1), matches: true},
		"one value more":  {selector: many("b", maxTerms), err: "has 257 labels, expressions and values"},
		"many bytes": {selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": strings.Repeat("b", maxTermBytes)}},
			err: "with 65537 bytes. At most 256 with 65536 bytes are allowed"},
		"malformed values": {selector: many("_", maxTerms-1), err: `values[0][a]: Invalid value: "_"`},
	} {
		selector, err := Compile(tc.selector)
		if tc.err != "" {
			// A list of all errors would have 255 of them.
			if err == nil || !strings.Contains(err.Error(), tc.err) || len(err.Error()) > 512 {
				t.Errorf("%s: err = %v, want %q", name, err, tc.err)
			}
			continue
		}
		if err != nil || selector.Matches(labels.Set{"a": "b"}) != tc.matches {
			t.Errorf("%s: matches %t, err = %v", name, !tc.matches, err)
		}
	}
}
