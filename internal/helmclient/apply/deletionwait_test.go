// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

// deletingPod returns a Pod with a finalizer that is being deleted.
func deletingPod() string {
	return strings.Replace(objectOf(podKind, ""), `"name"`,
		`"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/slow"],"name"`, 1)
}

// response returns the response to a request.
type response = func(*http.Request) (*http.Response, error)

// answers is a transport that sends one response after the other, and then repeats the last response.
func answers(responses ...response) helmtest.RoundTripperFunc {
	return func(req *http.Request) (*http.Response, error) {
		answer := responses[0]
		if len(responses) > 1 {
			responses = responses[1:]
		}
		return answer(req)
	}
}

// answer returns a response of an API server.
func answer(code int, body string) response {
	return func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
			Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// status returns a response with an error.
func status(code int, reason string) response {
	return answer(code, fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Status","status":"Failure","code":%d,"reason":%q,"message":"the test answers %s"}`, code,
		reason, reason))
}

// TestOnlyNotFoundProvesDeletion checks that a wait for deletions ends only when the object does not exist or is not
// being deleted, and that an unreadable object counts as existing.
func TestOnlyNotFoundProvesDeletion(t *testing.T) {
	exists, deleting := answer(http.StatusOK, objectOf(podKind, "")), answer(http.StatusOK, deletingPod())
	gone, fails := status(http.StatusNotFound, "NotFound"), status(http.StatusInternalServerError, "InternalError")
	cut := func(*http.Request) (*http.Response, error) { return nil, helmtest.ErrCut }
	const timeout = time.Minute
	for name, test := range map[string]struct {
		responses []response
		after     time.Duration
		// want are parts of the error, and kind is its kind; empty if there is none.
		want []string
		kind error
	}{
		"gone":             {[]response{gone}, 0, nil, nil},
		"not deleted":      {[]response{exists}, 0, nil, nil},
		"gone later":       {[]response{deleting, deleting, gone}, 2 * deletionInterval, nil, nil},
		"re-created":       {[]response{deleting, exists}, deletionInterval, nil, nil},
		"first read fails": {[]response{fails, gone}, deletionInterval, nil, nil},
		"reads fail meanwhile": {[]response{deleting, fails, status(http.StatusServiceUnavailable, "ServiceUnavailable"),
			deleting, gone}, 4 * deletionInterval, nil, nil},
		"no connection": {[]response{deleting, cut, gone}, deletionInterval, []string{"connection"}, helmerr.ErrUnreachable},
		"no permission": {[]response{status(http.StatusForbidden, "Forbidden"), gone}, 0, []string{"Forbidden"}, nil},
		"never gone": {[]response{deleting}, timeout,
			[]string{`Pod "a" still exists`, "finalizers example.com/slow", "context deadline exceeded"}, helmerr.ErrTimeout},
		"never readable": {[]response{fails}, timeout,
			[]string{`Pod "a" may still exist`, "the test answers InternalError", "context deadline exceeded"},
			helmerr.ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				k, objects := clientThrough(t.Context(), t, answers(test.responses...), objectOf(podKind, ""))
				remaining, begun := 0, time.Now()
				k.Remaining = func() { remaining++ }
				err := k.WaitForDelete(objects, timeout)
				if took := time.Since(begun); took != test.after {
					t.Errorf("the wait took %s", took)
				}
				if (err != nil) != (test.want != nil) || (remaining == 1) != (test.want != nil) {
					t.Errorf("error %v, and %d calls of Remaining", err, remaining)
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

// TestRemainingHookIsNoRemainingObject checks that a hook that is not deleted in time does not count as an object of
// the release: Helm then ends the uninstallation itself.
func TestRemainingHookIsNoRemainingObject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		hook := strings.Replace(objectOf(podKind, ""), `"name"`, `"annotations":{"`+release.HookAnnotation+
			`":"pre-delete"},"name"`, 1)
		k, objects := clientThrough(t.Context(), t, answers(answer(http.StatusOK, deletingPod())), hook)
		k.Remaining = func() { t.Error("the hook counts as an object of the release") }
		if err := k.WaitForDelete(objects, time.Minute); err == nil {
			t.Error("the wait ended without an error")
		}
	})
}
