// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"
)

// Access holds the settings for the requests to a registry. The zero value is anonymous HTTPS with
// the system's certificate authorities and the environment's proxy settings.
type Access struct {
	// DockerConfigs are Docker config files. The first file that has an entry for the repository
	// provides the credential. Only "auths" is used, because credential helpers and stores would run
	// programs.
	DockerConfigs [][]byte
	// CloudProvider is "aws", "azure" or "gcp". Options.CloudLogin then provides the credential if no
	// Docker config has an entry. Empty means no cloud provider.
	CloudProvider string
	// CA is a bundle of PEM certificates that are trusted in addition to the system's.
	CA []byte
	// ClientCert and ClientKey are the PEM certificate chain and key for mutual TLS. Set both or
	// neither.
	ClientCert, ClientKey []byte
	// Proxy is used for all requests. Nil means the environment's HTTP_PROXY, HTTPS_PROXY and
	// NO_PROXY.
	Proxy *Proxy
	// Insecure uses plain HTTP instead of HTTPS.
	Insecure bool
	// Trusted exempts a repository and a proxy that the administrator configured from
	// Options.RefuseLocal.
	Trusted bool
	// OnlyOwnCredentials means that only DockerConfigs provide credentials: neither
	// Options.CredentialsFile nor Options.CloudLogin is used.
	OnlyOwnCredentials bool
}

// Proxy is the HTTP or SOCKS proxy for the requests to a registry.
type Proxy struct {
	// Address is "http://host:port", "https://host:port" or "socks5://host:port",
	// without user and password.
	Address string
	// Username and Password authenticate at the proxy. Empty means no authentication.
	Username, Password string
}

// URL returns the proxy's address for net/http. Errors do not contain the address, because users
// may write passwords into it.
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

// ID returns strings that identify the proxy. They contain a password: hash them.
func (p *Proxy) ID() []string {
	if p == nil {
		return nil
	}
	return []string{p.Address, p.Username, p.Password}
}

// CloudLogin obtains credentials for the registries of cloud providers. It is safe for concurrent
// use.
type CloudLogin interface {
	// Login returns a credential of the provider, a value of Access.CloudProvider, for a repository,
	// "host[:port]/path". Its errors contain no tokens.
	Login(ctx context.Context, provider, repository string) (CloudCredential, error)
}

// CloudCredential is a credential that a cloud provider issued.
type CloudCredential struct {
	Username, Password string
	// Expires is the time when the credential expires; zero if it is unknown.
	Expires time.Time
}
