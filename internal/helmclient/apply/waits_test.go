// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/waits"
)

// clientThrough returns a client with a transport, and the object with the manifest.
func clientThrough(ctx context.Context, t *testing.T, transport helmtest.RoundTripperFunc, manifest string) (*Client,
	kube.ResourceList,
) {
	t.Helper()
	config, objects := helmtest.ObjectThrough(t, transport, manifest)
	return NewClient(ctx, &connections.Getter{Config: config}, "apps", func(string, ...any) {}), objects
}

// TestRemainingObjects checks which objects remain after a wait for their deletion. A hook that is not deleted in time
// does not count as an object of the release: Helm then ends the uninstallation itself.
func TestRemainingObjects(t *testing.T) {
	object := helmtest.ObjectOf(helmtest.PodKind, "")
	hook := strings.Replace(object, `"name"`, `"annotations":{"`+release.HookAnnotation+`":"pre-delete"},"name"`, 1)
	deleting := helmtest.Answer(http.StatusOK, helmtest.DeletingPod())
	gone := helmtest.Status(http.StatusNotFound, "NotFound")
	for name, test := range map[string]struct {
		manifest  string
		answer    helmtest.Response
		remaining int
		fails     bool
	}{
		"object":          {object, deleting, 1, true},
		"deleted object":  {object, gone, 0, false},
		"existing object": {object, helmtest.Answer(http.StatusOK, object), 0, false},
		"hook":            {hook, deleting, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				k, objects := clientThrough(t.Context(), t, helmtest.Answers(test.answer), test.manifest)
				remaining := 0
				k.Remaining = func() { remaining++ }
				if err := k.WaitForDelete(objects, time.Minute); (err != nil) != test.fails || remaining != test.remaining {
					t.Errorf("error %v, and %d calls of Remaining", err, remaining)
				}
			})
		})
	}
}

// TestWaitsEndWithAction checks that each wait of the client ends when the action is stopped or loses its record.
func TestWaitsEndWithAction(t *testing.T) {
	errStop := errors.New("the release is being deleted")
	for name, wait := range map[string]func(*Client, kube.ResourceList, time.Duration) error{
		"ready": (*Client).Wait, "hooks": (*Client).WatchUntilReady, "deleted": (*Client).WaitForDelete,
	} {
		t.Run(name, func(t *testing.T) {
			helmtest.InBubble(t, func(t *testing.T) {
				action, end := context.WithCancel(t.Context())
				deleting := func(req *http.Request) (*http.Response, error) {
					if action.Err() != nil {
						return nil, action.Err()
					}
					if req.URL.Query().Has("fieldSelector") { // A wait for a hook lists and watches its object.
						return helmtest.Status(http.StatusServiceUnavailable, "ServiceUnavailable")(req)
					}
					return helmtest.Answer(http.StatusOK, helmtest.DeletingPod())(req)
				}
				k, objects := clientThrough(action, t, deleting, helmtest.ObjectOf(helmtest.PodKind, ""))
				begun := time.Now()
				k.Recorded = func() error { return errStop }
				if err := wait(k, objects, time.Hour); !errors.Is(err, errStop) || time.Since(begun) != waits.RecordInterval {
					t.Errorf("without a record, error %v after %s", err, time.Since(begun))
				}
				stopped, cancel := context.WithCancelCause(action)
				cancel(errStop)
				k.Stop, k.Recorded = stopped, nil
				if err := wait(k, objects, time.Hour); !errors.Is(err, errStop) {
					t.Errorf("after a stop, error %v", err)
				}
				end()
				time.Sleep(2 * time.Hour) // Helm's wait for ready objects ends a while after the action.
			})
		})
	}
}
