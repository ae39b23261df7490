// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"fmt"
	"slices"
	"strings"
)

// maxJoined is the number of errors in the text of Join.
const maxJoined = 10

// Join combines the errors of writes to many objects, and returns nil if all are nil. The text has the first errors and
// the number of the others, because a HelmOp can have thousands of releases. errors.Is and errors.As find all errors.
func Join(errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return joined(errs)
}

type joined []error

// Error implements error.
func (j joined) Error() string {
	texts := make([]string, 0, maxJoined+1)
	for _, err := range j[:min(len(j), maxJoined)] {
		texts = append(texts, err.Error())
	}
	if more := len(j) - maxJoined; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more errors", more))
	}
	return strings.Join(texts, "; ")
}

// Unwrap implements the interface of errors.Is and errors.As.
func (j joined) Unwrap() []error { return j }
