// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"time"
)

// Access says how to talk to a registry. The zero value is anonymous HTTPS with
// the system's certificate authorities and the environment's proxy settings.
type Access struct {
	// DockerConfigs are Docker config files in order: the first that has an entry
	// for the repository gives the credential. Only their "auths" are used;
	// credential helpers and stores would run programs.
	DockerConfigs [][]byte
	// CloudProvider is "aws", "azure" or "gcp" to have Options.CloudLogin asked
	// where no Docker config has an entry; empty asks nobody.
	CloudProvider string
	// CA is a bundle of PEM certificates trusted in addition to the system's.
	CA []byte
	// ClientCert and ClientKey are the PEM certificate chain and key that the
	// registry is shown; both or none.
	ClientCert, ClientKey []byte
	// Proxy is used for all requests; nil is what the environment says in
	// HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
	Proxy *Proxy
	// Insecure talks plain HTTP instead of HTTPS.
	Insecure bool
	// Trusted is for a repository and a proxy that the administrator named:
	// Options.RefuseLocal does not count.
	Trusted bool
}

// Proxy is the way out to a registry.
type Proxy struct {
	// Address is "http://host:port", "https://host:port" or "socks5://host:port",
	// without user and password.
	Address string
	// Username and Password are shown to the proxy; empty for none.
	Username, Password string
}

// CloudLogin gives credentials for the registries of cloud providers. It is safe
// for use by several goroutines.
type CloudLogin interface {
	// Login returns a credential for a repository, "host[:port]/path", from a
	// provider of Access.CloudProvider. Its errors hold no tokens.
	Login(ctx context.Context, provider, repository string) (CloudCredential, error)
}

// CloudCredential is what a cloud provider gave.
type CloudCredential struct {
	Username, Password string
	// Expires is when the credential ends to be good; zero if that is not known.
	Expires time.Time
}
