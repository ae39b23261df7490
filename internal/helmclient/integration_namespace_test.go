// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationAssumedNamespace checks that an installation into a namespace that the manager does not know searches
// for objects of others if the namespace turns out to exist, also for a user that may not create namespaces.
func TestIntegrationAssumedNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		// isForeign means that an object of the chart exists already.
		isForeign bool
		// mayNotCreate means that the cluster refuses to create namespaces.
		mayNotCreate bool
		splitAll     bool
	}{
		"exists":                             {},
		"exists with records in parts":       {splitAll: true},
		"has an object of others":            {isForeign: true},
		"may not be created":                 {mayNotCreate: true},
		"may not be created and has objects": {mayNotCreate: true, isForeign: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createNamespace()
			if test.isForeign {
				foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"},
					Data: map[string]string{"key": "foreign"}}
				if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), foreign,
					metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if test.mayNotCreate {
				b.target.Config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
					return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
						if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/namespaces") {
							return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: req,
								Body: http.NoBody}, nil
						}
						return base.RoundTrip(req)
					})
				}
			}
			b.target.Storage.SplitAll = test.splitAll
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			_, err := run.actNow(t, model.ActionInstall)
			if !test.isForeign {
				if err != nil {
					t.Fatal(err)
				}
				b.wantConfigMap("first", "1")
				b.wantRecords(run.desired, "1 deployed")
				return
			}
			if !errors.Is(err, helmerr.ErrConflict) {
				t.Errorf("the error is %v", err)
			}
			b.wantConfigMap("first", "foreign")
			b.wantNoConfigMap("demo-value")
			b.wantRecords(run.desired)
		})
	}
}
