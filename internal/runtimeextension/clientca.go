// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimeextension

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// requireClientCA makes a server accept only clients with a certificate of the CA in a file. The server reads the file
// at each handshake, so a new CA takes effect at once, and the former CA ends at once. If the file cannot be read, the
// server refuses all clients.
func requireClientCA(config *tls.Config, file string) {
	// A resumed session does not check the certificate of the client again.
	config.SessionTicketsDisabled = true
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		pool, err := readClientCA(file)
		if err != nil {
			return nil, err
		}
		current := config.Clone()
		current.ClientCAs, current.ClientAuth = pool, tls.RequireAndVerifyClientCert
		return current, nil
	}
}

// readClientCA reads the CA of the clients from a file.
func readClientCA(file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of the clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("reading the CA of the clients: %s has no certificate in PEM format", file)
	}
	return pool, nil
}
