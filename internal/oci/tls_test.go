// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
)

func newAuthority(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("test")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func clientPair(t *testing.T, ca *pki.CA) pki.Pair {
	t.Helper()
	pair, err := ca.Client("helmop")
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// newMutualRegistry returns a registry that requires client certificates of ca.
func newMutualRegistry(t *testing.T, ca *pki.CA, version uint16) *fakeRegistry {
	t.Helper()
	r := newRegistry(t)
	r.srv.Close()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	r.srv = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.srv.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: version,
		MaxVersion: version}
	r.srv.StartTLS()
	t.Cleanup(r.srv.Close)
	return r
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			r := newMutualRegistry(t, ca, version)
			r.push("1.0.0", "1.0.0", []byte("x"))
			c := newClient(t)
			src := r.source(Reference{Tag: "1.0.0"})
			resolve := func() error {
				t.Helper()
				_, err := c.Resolve(t.Context(), src)
				return err
			}
			if err := resolve(); !errors.Is(err, ocierr.ErrTLS) ||
				!strings.Contains(err.Error(), "provide a client certificate") {
				t.Errorf("without certificate: error = %v, want ErrTLS that asks for one", err)
			}
			good := clientPair(t, ca)
			src.Access.ClientCert, src.Access.ClientKey = good.Cert, good.Key
			if err := resolve(); err != nil {
				t.Errorf("with certificate: %v", err)
			}
			strange := clientPair(t, newAuthority(t))
			src.Access.ClientCert, src.Access.ClientKey = strange.Cert, strange.Key
			if err := resolve(); !errors.Is(err, ocierr.ErrTLS) ||
				!strings.Contains(err.Error(), "provide a client certificate") {
				t.Errorf("certificate of another authority: error = %v, want ErrTLS that asks for one", err)
			}
		})
	}
}

func TestClientCertificateNeedsItsKey(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	one, other := clientPair(t, ca), clientPair(t, ca)
	c := newClient(t)
	for name, access := range map[string]Access{
		"no key":         {ClientCert: one.Cert},
		"no certificate": {ClientKey: one.Key},
		"another's key":  {ClientCert: one.Cert, ClientKey: other.Key},
		"not PEM":        {ClientCert: []byte("planted-x"), ClientKey: []byte("planted-x")},
	} {
		_, err := c.Resolve(t.Context(), Source{URL: "oci://127.0.0.1:1/x", Ref: Reference{Tag: "1"}, Access: access})
		if !errors.Is(err, ocierr.ErrInvalidAccess) || !strings.Contains(err.Error(), "client certificate") {
			t.Errorf("%s: error = %v, want ErrInvalidAccess that names the client certificate", name, err)
			continue
		}
		noSecrets(t, err)
	}
}

// TestClientCertificateDoesNotFollowRedirects checks that a client certificate is sent to the registry, and not to the
// target of a redirect.
func TestClientCertificateDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	shown := make(chan int, 1)
	storage := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		shown <- len(req.TLS.PeerCertificates)
		_, _ = w.Write([]byte("x"))
	}))
	storage.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	storage.StartTLS()
	t.Cleanup(storage.Close)
	r := newMutualRegistry(t, ca, tls.VersionTLS13)
	dgst := r.push("1.0.0", "1.0.0", []byte("x"))
	elsewhere := strings.Replace(storage.URL, "127.0.0.1", "example.com", 1)
	r.setIntercept(redirectBlobs(elsewhere))
	c := newClient(t)
	// The name is not 127.0.0.1, so it is another host. It leads to the storage.
	pair := clientPair(t, ca)
	access := r.access()
	access.ClientCert, access.ClientKey = pair.Cert, pair.Key
	access.CA = append(access.CA, certificateOf(storage)...)
	access.Proxy = &credentials.Proxy{Address: newConnectProxy(t, nil,
		map[string]string{strings.TrimPrefix(elsewhere, "https://"): storage.Listener.Addr().String()}).URL}
	content, err := c.Fetch(t.Context(), r.url(), dgst, access)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := content.ReadLayer(t.Context(), content.Layers[0]); err != nil {
		t.Fatal(err)
	}
	if n := <-shown; n != 0 {
		t.Errorf("the storage was shown %d certificates", n)
	}
}
