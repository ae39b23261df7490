// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
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
