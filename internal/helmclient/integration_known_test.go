// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/objectinfo"
)

// givenAway is a patch that gives an object to another release.
const givenAway = `{"metadata":{"annotations":{"meta.helm.sh/release-name":"other"}}}`

// TestIntegrationForbiddenKnownDeletion checks an uninstallation whose user may not delete an object of a known
// version. The uninstallation succeeds if the object no longer exists or belongs to another release.
func TestIntegrationForbiddenKnownDeletion(t *testing.T) {
	for name, isGone := range map[string]bool{"gone": true, "given away": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.forbid(func(req *http.Request) bool {
				return req.Method == http.MethodDelete && strings.HasSuffix(req.URL.Path, "/configmaps/first")
			})
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			if isGone {
				if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "first",
					metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				b.patchConfigMap("first", givenAway)
			}
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(b.refused) != 1 {
				t.Errorf("%v were refused", b.refused)
			}
			if !isGone {
				b.wantConfigMap("first", "1")
			}
			b.wantNoConfigMap("demo-value")
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationManyKnownVersions checks that an uninstallation does not list objects of known versions.
func TestIntegrationManyKnownVersions(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", sharedObjects(objectinfo.ManyReads+1, "1")), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	b.patchConfigMap("shared-0", `{"data":{"key":"2"}}`)
	b.patchConfigMap("shared-1", givenAway)
	b.cutter.Take()
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := budget{}
	for _, request := range b.cutter.Take() {
		got[requestOf(request)]++
	}
	if got["LIST configmaps"] != 0 || got["GET configmaps"] != 2 {
		t.Errorf("the uninstallation sends %v", got)
	}
	for i := range objectinfo.ManyReads + 1 {
		if i != 1 {
			b.wantNoConfigMap(fmt.Sprintf("shared-%d", i))
		}
	}
	b.wantConfigMap("shared-1", "1")
}

// TestIntegrationGivenAwayAfterRead checks that an uninstallation keeps an object that another release takes over right
// after HelmOp listed or read it.
func TestIntegrationGivenAwayAfterRead(t *testing.T) {
	for name, test := range map[string]struct {
		count int
		path  string
	}{
		"listed": {count: objectinfo.ManyReads + 1, path: "/configmaps"},
		"read":   {count: 1, path: "/configmaps/shared-0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			templates := with(sharedObjects(test.count, "1"), "value.yaml", helmtest.ValueConfigMap)
			first := b.newRun(helmtest.NewChart("1.0.0", templates), map[string]any{"cidr": "1"})
			first.mustSettle(t)
			// A new process knows no versions.
			b.reconnect(-1)
			taken := false
			b.afterwards(func(req *http.Request) bool {
				return req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, test.path)
			}, func() {
				taken = true
				b.patchConfigMap("shared-0", givenAway)
			})
			run := b.newRun(first.chart, first.values)
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !taken {
				t.Error("the object was not taken over")
			}
			b.wantConfigMap("shared-0", "1")
			b.wantNoConfigMap("demo-value")
			b.wantRecords(run.desired)
		})
	}
}

// forbid makes the cluster refuse requests to HelmOp, and adds them to the refused requests. Call it before the first
// request.
func (b *bench) forbid(matches func(*http.Request) bool) {
	var mu sync.Mutex // Requests may be sent at the same time.
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if !matches(req) {
			return send()
		}
		mu.Lock()
		defer mu.Unlock()
		b.refused = append(b.refused, req.Method+" "+req.URL.Path)
		return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: req, Body: http.NoBody}, nil
	})
}

// afterwards calls a function after the first response to a matching request of HelmOp. Call it before the first
// request.
func (b *bench) afterwards(matches func(*http.Request) bool, call func()) {
	var once sync.Once
	b.intercept(func(req *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err != nil || !matches(req) {
			return resp, err
		}
		once.Do(func() {
			var body []byte
			if body, err = io.ReadAll(resp.Body); err != nil {
				return
			}
			err = resp.Body.Close()
			resp.Body = io.NopCloser(bytes.NewReader(body))
			call()
		})
		if err != nil {
			return nil, err
		}
		return resp, nil
	})
}

// intercept replaces the transport of HelmOp, above the cutter.
func (b *bench) intercept(handle func(*http.Request, func() (*http.Response, error)) (*http.Response, error)) {
	b.target.Config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		below := b.cutter.Wrap(base)
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			return handle(req, func() (*http.Response, error) { return below.RoundTrip(req) })
		})
	}
}
