// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Access holds the settings for requests to a registry. The zero value means HTTPS without credentials, the certificate
// authorities of the system, and the proxy settings of the environment.
type Access struct {
	// DockerConfigs are Docker config files. The first file with an entry for the repository provides the credential.
	// Only "auths" is read, because credential helpers and stores would run programs.
	DockerConfigs [][]byte
	// CloudProvider is "aws", "azure" or "gcp". Options.CloudLogin provides the credential if no Docker config has an
	// entry. Empty means no cloud provider.
	CloudProvider string
	// CA is a bundle of PEM certificates. They are trusted in addition to the certificates of the system.
	CA []byte
	// ClientCert and ClientKey are the PEM certificate chain and key for mutual TLS. Set both or none.
	ClientCert, ClientKey []byte
	// Proxy is used for all requests. Nil means the proxy settings of the environment: HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY.
	Proxy *Proxy
	// Insecure uses plain HTTP instead of HTTPS.
	Insecure bool
	// Trusted means that Options.RefuseLocal does not apply. Set it for a repository and a proxy that the administrator
	// configured.
	Trusted bool
	// OnlyOwnCredentials means that only DockerConfigs provide credentials. Options.CredentialsFile and
	// Options.CloudLogin are not used.
	OnlyOwnCredentials bool
}

// Digest returns a digest of all settings. It does not copy Docker configs and certificates, because they may be large.
func (a Access) Digest() string {
	digest := func(data []byte) []byte {
		sum := sha256.Sum256(data)
		return sum[:]
	}
	a.DockerConfigs = slices.Clone(a.DockerConfigs)
	for i, config := range a.DockerConfigs {
		a.DockerConfigs[i] = digest(config)
	}
	a.CA, a.ClientCert, a.ClientKey = digest(a.CA), digest(a.ClientCert), digest(a.ClientKey)
	text, _ := json.Marshal(a) // it cannot fail: all fields are texts, bytes and booleans
	return hex.EncodeToString(digest(text))
}

// Proxy is the HTTP or SOCKS proxy for the requests to a registry.
type Proxy struct {
	// Address is "http://host:port", "https://host:port" or "socks5://host:port". It has no user and no password.
	Address string
	// Username and Password are the credential for the proxy. Empty means no authentication.
	Username, Password string
}

// URL returns the URL of the proxy for net/http. Errors do not contain the address, because the address may contain a
// password.
func (p *Proxy) URL() (*url.URL, error) {
	address, err := url.Parse(p.Address)
	switch {
	case err != nil, address.Hostname() == "":
		return nil, errors.New("the proxy's address is not of the form http://host:port")
	case address.User != nil:
		return nil, errors.New("the proxy's address contains a user; set username and password in their own keys")
	case address.Scheme != "http" && address.Scheme != "https" && address.Scheme != "socks5":
		return nil, errors.New("the proxy's address must start with http://, https:// or socks5://")
	case strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.Fragment != "":
		return nil, errors.New("the proxy's address must end after host:port")
	case p.Username == "" && p.Password != "":
		return nil, errors.New("the proxy's password has no username")
	}
	address.Path = ""
	if p.Username != "" {
		address.User = url.UserPassword(p.Username, p.Password)
	}
	return address, nil
}

// ID returns strings that identify the proxy. One of them is a password, so the caller must hash them.
func (p *Proxy) ID() []string {
	if p == nil {
		return nil
	}
	return []string{p.Address, p.Username, p.Password}
}

// CloudLogin obtains credentials for the registries of cloud providers. It must be safe for concurrent use.
type CloudLogin interface {
	// Login returns a credential for a repository, "host[:port]/path". provider is a value of Access.CloudProvider.
	// Errors must not contain tokens.
	Login(ctx context.Context, provider, repository string) (CloudCredential, error)
}

// CloudCredential is a credential that a cloud provider issued.
type CloudCredential struct {
	Username, Password string
	// Expires is the time when the credential expires. Zero means that the time is unknown.
	Expires time.Time
}
