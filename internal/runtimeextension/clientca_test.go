// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
)

// caOf returns a certificate authority and a client certificate that it has signed.
func caOf(t *testing.T) (*pki.CA, tls.Certificate) {
	t.Helper()
	ca, err := pki.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Client("capi")
	if err != nil {
		t.Fatal(err)
	}
	client, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return ca, client
}

// TestClientCAIsReadAgain checks that a replaced CA takes effect without a restart, also for a client that wants to
// resume the session of an earlier connection. Without a readable CA, no client is accepted.
func TestClientCAIsReadAgain(t *testing.T) {
	t.Parallel()
	former, formerClient := caOf(t)
	next, nextClient := caOf(t)
	file := filepath.Join(t.TempDir(), "client-ca.crt")
	write := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(former.PEM())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	// Like controller-runtime, the server completes the same configuration that it uses later.
	requireClientCA(server.TLS, file)
	newClient := func(certificates ...tls.Certificate) *http.Client {
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.DisableKeepAlives = true
		transport.TLSClientConfig.Certificates = certificates
		transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return &http.Client{Transport: transport}
	}
	without, old, current := newClient(), newClient(formerClient), newClient(nextClient)
	for _, step := range []struct {
		name         string
		ca           []byte
		old, current bool
	}{
		{"the CA at the start", former.PEM(), true, false},
		{"both CAs", append(former.PEM()[:len(former.PEM()):len(former.PEM())], next.PEM()...), true, true},
		{"the replaced CA", next.PEM(), false, true},
		{"a damaged CA", []byte("no certificate"), false, false},
		{"the repaired CA", next.PEM(), false, true},
	} {
		write(step.ca)
		for client, want := range map[*http.Client]bool{without: false, old: step.old, current: step.current} {
			response, err := client.Get(server.URL)
			if err == nil {
				_ = response.Body.Close()
			}
			if (err == nil) != want {
				t.Errorf("%s: a client is accepted: %t, want %t (%v)", step.name, err == nil, want, err)
			}
		}
	}
}

// TestClientCAIsCheckedAtStart checks that a manager without the CA does not start.
func TestClientCAIsCheckedAtStart(t *testing.T) {
	t.Parallel()
	if err := SetupWithManager(t.Context(), nil, Options{Port: 1, CertDir: t.TempDir(), ClientCA: "ca.crt"}); err == nil {
		t.Error("the extension is served without the CA")
	}
}
