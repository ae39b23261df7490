// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
)

// maxTerms is the maximum number of labels, expressions and values of a label selector, maxTermBytes the maximum length
// of its keys and values together. A selector within these limits compiles in less than a millisecond. Each event of a
// Cluster compiles the selectors of many HelmOps, and a HelmOp of one tenant must not delay the events of all others.
const maxTerms, maxTermBytes = 256, 64 << 10

// Compile compiles a label selector of a HelmOp. A nil selector selects nothing, and an empty one selects everything.
// The error is the first that the selector has, or says that the selector is too large.
func Compile(selector *metav1.LabelSelector) (labels.Selector, error) {
	if terms, bytes := sizeOf(selector); terms > maxTerms || bytes > maxTermBytes {
		return nil, fmt.Errorf("has %d labels, expressions and values with %d bytes. At most %d with %d bytes are allowed. "+
			"Give the objects a common label, and select this label", terms, bytes, maxTerms, maxTermBytes)
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	var all kerrors.Aggregate
	if errors.As(err, &all) {
		// The text of all errors takes time that grows with the square of their number.
		err = all.Errors()[0]
	}
	return compiled, err
}

// sizeOf returns the number of labels, expressions and values of a selector, and the length of its keys and values.
func sizeOf(selector *metav1.LabelSelector) (terms, bytes int) {
	if selector == nil {
		return 0, 0
	}
	for key, value := range selector.MatchLabels {
		terms, bytes = terms+1, bytes+len(key)+len(value)
	}
	for i := range selector.MatchExpressions {
		expression := &selector.MatchExpressions[i]
		terms, bytes = terms+1+len(expression.Values), bytes+len(expression.Key)
		for _, value := range expression.Values {
			bytes += len(value)
		}
	}
	return terms, bytes
}
