/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// newChart returns a chart with one template per entry: name → content.
func newChart(version string, templates map[string]string) *chart.Chart {
	chrt := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "demo", Version: version, AppVersion: "1." + version}}
	for name, content := range templates {
		chrt.Templates = append(chrt.Templates, &chart.File{Name: "templates/" + name, Data: []byte(content)})
	}
	return chrt
}

func configMap(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, data)
}

// valueConfigMap holds the value "cidr".
const valueConfigMap = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-value\ndata:\n  key: {{ .Values.cidr | quote }}\n"

// desiredFor returns what is desired of a release, made from the given chart version and values.
func desiredFor(namespace, name, artifact, values string) Desired {
	return Desired{
		Name: name, Namespace: namespace, Owner: "default." + name, UID: "uid-" + name,
		ArtifactDigest: artifact, ValuesDigest: values, OptionsDigest: OptionsDigest(Options{}),
	}
}

var errCut = errors.New("connection cut by the test: connection refused")

// cutter passes requests through, counts them, and from some point on fails all that follow.
type cutter struct {
	// after is the number of requests that pass; negative for no such limit.
	after int
	// last tells the request after which none passes; nil for no such limit.
	last func(*http.Request) bool

	mu       sync.Mutex
	requests []string
}

func (c *cutter) wrap(base http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		c.mu.Lock()
		c.requests = append(c.requests, req.Method+" "+req.URL.Path)
		cut := c.after >= 0 && len(c.requests) > c.after
		if !cut && c.last != nil && c.last(req) {
			c.after = 0
		}
		c.mu.Unlock()
		if cut {
			return nil, errCut
		}
		return base.RoundTrip(req)
	})
}

// take returns the requests so far and begins anew.
func (c *cutter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.requests
	c.requests = nil
	return requests
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func asError(t *testing.T, err error) *Error {
	t.Helper()
	var helmErr *Error
	if !errors.As(err, &helmErr) {
		t.Fatalf("error %v is no *Error", err)
	}
	return helmErr
}

// wantError checks the kind of an error from Act or Observe, and what its text contains.
func wantError(t *testing.T, err, kind error, storageChanged bool, contains ...string) {
	t.Helper()
	helmErr := asError(t, err)
	if !errors.Is(helmErr.Kind, kind) || kind != nil && !errors.Is(err, kind) {
		t.Errorf("kind %v, want %v (%s)", helmErr.Kind, kind, err)
	}
	if helmErr.StorageChanged != storageChanged {
		t.Errorf("StorageChanged %t, want %t (%s)", helmErr.StorageChanged, storageChanged, err)
	}
	for _, part := range contains {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not contain %q", err, part)
		}
	}
}
