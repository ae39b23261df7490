// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeCloud simulates a part of the internet behind a proxy: the services of the cloud providers under their real
// names, with certificates of its own authority. Environment variables direct the SDKs to it, as an administrator would
// configure them.
type fakeCloud struct {
	t *testing.T
	// proxy is a CONNECT proxy. It also gets plain HTTP requests to link-local and loopback addresses.
	proxy *httptest.Server
	ca    string // file

	ended chan struct{} // closed at the end of the test

	mu       sync.Mutex
	services map[string]http.HandlerFunc // by host
	asked    []string                    // "METHOD host/path"
}

func newFakeCloud(t *testing.T) *fakeCloud {
	t.Helper()
	f := &fakeCloud{t: t, ended: make(chan struct{}), services: map[string]http.HandlerFunc{}}
	inside := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	inside.TLS = f.certificates()
	inside.StartTLS()
	t.Cleanup(inside.Close)
	target := inside.Listener.Addr().String()
	f.proxy = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			f.tunnel(w, target)
			return
		}
		f.serve(w, r)
	}))
	f.proxy.Start()
	t.Cleanup(f.proxy.Close)
	t.Cleanup(func() { close(f.ended) }) // before the servers wait for their requests
	return f
}

// certificates creates an authority that issues a certificate for any requested name.
func (f *fakeCloud) certificates() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake cloud"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	root, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ca = filepath.Join(f.t.TempDir(), "ca.pem")
	f.write(f.ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})))
	return &tls.Config{MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			leaf := &x509.Certificate{
				SerialNumber: big.NewInt(2), DNSNames: []string{hello.ServerName}, NotBefore: authority.NotBefore,
				NotAfter: authority.NotAfter,
				KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			}
			signed, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), key)
			return &tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}, err
		}}
}

func (f *fakeCloud) tunnel(w http.ResponseWriter, target string) {
	out, err := net.Dial("tcp", target)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.t.Error(err)
		return
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(out, in)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// hang blocks requests until the end of the test.
func (f *fakeCloud) hang(http.ResponseWriter, *http.Request) { <-f.ended }

func (f *fakeCloud) serve(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if host == f.address() {
		host = "metadata"
	}
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+host+r.URL.Path)
	service := f.services[host]
	f.mu.Unlock()
	if service == nil {
		f.t.Errorf("unexpected request %s https://%s%s", r.Method, host, r.URL)
		w.WriteHeader(http.StatusTeapot)
		return
	}
	service(w, r)
}

// on sets the response of a host. The host "metadata" means requests to address() itself.
func (f *fakeCloud) on(host string, service http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.services[host] = service
}

// requests returns the requests so far.
func (f *fakeCloud) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

func (f *fakeCloud) address() string { return f.proxy.Listener.Addr().String() }

// file writes a file and returns its path, for an environment variable.
func (f *fakeCloud) file(text string) string {
	path := filepath.Join(f.t.TempDir(), "file")
	f.write(path, text)
	return path
}

func (f *fakeCloud) write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// environment returns the environment of a Pod that can only reach the fake cloud.
func (f *fakeCloud) environment(more map[string]string) []string {
	env := []string{"HOME=" + f.t.TempDir(), "PATH=", "SSL_CERT_FILE=" + f.ca, "SSL_CERT_DIR=" + f.t.TempDir(),
		"HTTPS_PROXY=http://" + f.address(), "HTTP_PROXY=http://" + f.address()}
	for name, value := range more {
		env = append(env, name+"="+strings.ReplaceAll(value, "METADATA", f.address()))
	}
	return env
}
