// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/celexpr"
)

// expressions are the compiled expressions of a check.
type expressions struct {
	// inProgress and failed may be nil.
	inProgress, failed, current *celexpr.Expression
}

func compile(check Check) (*expressions, error) {
	if check.Current == "" {
		return nil, errors.New("current: must not be empty")
	}
	var e expressions
	for _, field := range []struct {
		name, source string
		expression   **celexpr.Expression
	}{
		{"inProgress", check.InProgress, &e.inProgress},
		{"failed", check.Failed, &e.failed},
		{"current", check.Current, &e.current},
	} {
		if field.source == "" {
			continue
		}
		expression, err := celexpr.Compile("self", field.source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		*field.expression = expression
	}
	return &e, nil
}

func (e *expressions) evaluate(obj *unstructured.Unstructured) (Status, string) {
	if holds(e.inProgress, obj) {
		return InProgress, "is in progress according to its health check"
	}
	if holds(e.failed, obj) {
		return Failed, "has failed according to its health check"
	}
	truth, err := e.current.Holds(obj.Object)
	switch {
	case truth:
		return Current, ""
	case err != nil:
		return InProgress, "its health check cannot be evaluated yet: " + err.Error()
	default:
		return InProgress, "is not current yet according to its health check"
	}
}

// holds reports whether an expression exists and is true.
func holds(expression *celexpr.Expression, obj *unstructured.Unstructured) bool {
	if expression == nil {
		return false
	}
	truth, _ := expression.Holds(obj.Object)
	return truth
}
