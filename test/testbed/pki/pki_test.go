// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestCertificatesVerifyWithTheirAuthorityOnly(t *testing.T) {
	t.Parallel()
	own, err := NewCA("own")
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	server, err := own.Server("server", "127.0.0.1", "example.org")
	if err != nil {
		t.Fatal(err)
	}
	client, err := own.Client("user", "group")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		pair  Pair
		ca    *CA
		host  string
		usage x509.ExtKeyUsage
		valid bool
	}{
		{"server by address", server, own, "127.0.0.1", x509.ExtKeyUsageServerAuth, true},
		{"server by name", server, own, "example.org", x509.ExtKeyUsageServerAuth, true},
		{"another host", server, own, "127.0.0.2", x509.ExtKeyUsageServerAuth, false},
		{"another authority", server, other, "127.0.0.1", x509.ExtKeyUsageServerAuth, false},
		{"a server is no client", server, own, "", x509.ExtKeyUsageClientAuth, false},
		{"client", client, own, "", x509.ExtKeyUsageClientAuth, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pair, err := tls.X509KeyPair(tt.pair.Cert, tt.pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(tt.ca.PEM())
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: tt.host,
				KeyUsages: []x509.ExtKeyUsage{tt.usage}})
			if (err == nil) != tt.valid {
				t.Errorf("got %v, want valid: %t", err, tt.valid)
			}
		})
	}
	pair, err := tls.X509KeyPair(client.Cert, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	if s := pair.Leaf.Subject; s.CommonName != "user" || len(s.Organization) != 1 || s.Organization[0] != "group" {
		t.Errorf("the client's subject is %s", s)
	}
}
