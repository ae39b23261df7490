// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package notserved

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIs(t *testing.T) {
	t.Parallel()
	served := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no object": {err: apierrors.NewNotFound(served, "w")},
		"no path": {err: apierrors.NewGenericServerResponse(404, "GET", served, "w", "404 page not found", 0, true),
			want: true},
		"no details": {err: &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}},
			want: true},
		"forbidden": {err: apierrors.NewForbidden(served, "w", errors.New("no"))},
		"no kind":   {err: &meta.NoKindMatchError{}},
		"no error":  {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Is(test.err); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
