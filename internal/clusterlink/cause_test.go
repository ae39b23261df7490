// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// TestCauses has API servers that fail in different ways.
func TestCauses(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.Header().Set("Location", "http://other.example.com")
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	insecure := rest.TLSClientConfig{Insecure: true}
	for _, tc := range []struct {
		name        string
		config      rest.Config
		status      int
		refuseLocal bool
		want        Cause
	}{
		{name: "answers", config: rest.Config{Host: server.URL, TLSClientConfig: insecure}, status: http.StatusOK},
		{name: "is local", config: rest.Config{Host: server.URL, TLSClientConfig: insecure}, refuseLocal: true,
			want: CauseLocal},
		{name: "credentials", config: rest.Config{Host: server.URL, TLSClientConfig: insecure},
			status: http.StatusUnauthorized, want: CauseCredentials},
		{name: "redirects", config: rest.Config{Host: server.URL, TLSClientConfig: insecure},
			status: http.StatusPermanentRedirect, want: CauseRedirect},
		{name: "fails by itself", config: rest.Config{Host: server.URL, TLSClientConfig: insecure},
			status: http.StatusInternalServerError},
		{name: "authority", config: rest.Config{Host: server.URL}, want: CauseCertificate},
		{name: "certificate of another host",
			config: rest.Config{Host: strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}, want: CauseCertificate},
		{name: "is gone", config: rest.Config{Host: gone.URL}},
	} {
		status = tc.status
		config, err := withTransport(&tc.config, tc.refuseLocal, newPulse())
		if err == nil {
			err = askVersion(t.Context(), &http.Client{Transport: config.Transport}, config)
		}
		if causeOf(err) != tc.want {
			t.Errorf("%s: %v: the cause is %q, want %q", tc.name, err, causeOf(err), tc.want)
		}
	}
	for want, isNotFound := range map[Cause]bool{CauseName: true, "": false} {
		if got := causeOf(fmt.Errorf("dialing: %w", &net.DNSError{IsNotFound: isNotFound})); got != want {
			t.Errorf("a name that is not found (%t) is of the cause %q", isNotFound, got)
		}
	}
	missing := apierrors.NewNotFound(corev1.Resource("secrets"), "one-kubeconfig")
	for err, want := range map[error]Cause{fmt.Errorf("%w: %w", errNoKubeconfig, missing): CauseMissing, missing: ""} {
		if got := causeOf(err); got != want {
			t.Errorf("%v is of the cause %q, want %q", err, got, want)
		}
	}
}
