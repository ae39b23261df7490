// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// TestOnlyNotFoundProvesDeletion checks that a wait for deletions ends only when the object does not exist or is not
// being deleted, and that an unreadable object counts as existing.
func TestOnlyNotFoundProvesDeletion(t *testing.T) {
	type responses = []helmtest.Response
	answer, status, pod := helmtest.Answer, helmtest.Status, helmtest.ObjectOf(helmtest.PodKind, "")
	exists, deleting := answer(http.StatusOK, pod), answer(http.StatusOK, helmtest.DeletingPod())
	gone, fails := status(http.StatusNotFound, "NotFound"), status(http.StatusInternalServerError, "InternalError")
	cut := func(*http.Request) (*http.Response, error) { return nil, helmtest.ErrCut }
	const timeout = time.Minute
	for name, test := range map[string]struct {
		responses responses
		after     time.Duration
		// want are parts of the error, and kind is its kind; empty if there is none.
		want []string
		kind error
	}{
		"gone":             {responses{gone}, 0, nil, nil},
		"not deleted":      {responses{exists}, 0, nil, nil},
		"gone later":       {responses{deleting, deleting, gone}, 2 * deletionInterval, nil, nil},
		"re-created":       {responses{deleting, exists}, deletionInterval, nil, nil},
		"first read fails": {responses{fails, gone}, deletionInterval, nil, nil},
		"reads fail meanwhile": {responses{deleting, fails, status(http.StatusServiceUnavailable, "ServiceUnavailable"),
			deleting, gone}, 4 * deletionInterval, nil, nil},
		"no connection": {responses{deleting, cut, gone}, deletionInterval, []string{"connection"}, helmerr.ErrUnreachable},
		"no permission": {responses{status(http.StatusForbidden, "Forbidden"), gone}, 0, []string{"Forbidden"}, nil},
		"never gone": {responses{deleting}, timeout,
			[]string{`Pod "a" still exists`, "finalizers example.com/slow", "context deadline exceeded"}, helmerr.ErrTimeout},
		"never readable": {responses{fails}, timeout,
			[]string{`Pod "a" may still exist`, "the test answers InternalError", "context deadline exceeded"},
			helmerr.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				_, objects := helmtest.ObjectThrough(t, helmtest.Answers(test.responses...), pod)
				begun := time.Now()
				err := Waiter{Ctx: t.Context()}.ForDeletion(objects, timeout)
				if took := time.Since(begun); took != test.after {
					t.Errorf("the wait took %s", took)
				}
				if (err != nil) != (test.want != nil) {
					t.Errorf("error %v", err)
				}
				for _, part := range test.want {
					if !strings.Contains(err.Error(), part) || test.kind != nil && !errors.Is(helmerr.Classify(err), test.kind) {
						t.Errorf("error %q lacks %q or is no %v", err, part, test.kind)
					}
				}
			})
		})
	}
}
