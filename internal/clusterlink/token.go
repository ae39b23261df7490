// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"crypto/sha256"
	"sync/atomic"

	"golang.org/x/oauth2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clienttransport "k8s.io/client-go/transport"
)

// bearer is the token that authenticates the requests of a config. Some providers of Cluster API replace the token in a
// kubeconfig every few minutes. An action may take longer than the token is valid, so requests read the current token.
type bearer struct {
	atomic.Pointer[oauth2.Token]
	// settings is the digest of the kubeconfig without its tokens.
	settings [sha256.Size]byte
}

// Token implements oauth2.TokenSource.
func (b *bearer) Token() (*oauth2.Token, error) { return b.Load(), nil }

// takeBearer moves the token of a config to the result. It returns nil if the config has no token. settings is the
// digest of the kubeconfig without its tokens.
func takeBearer(config *rest.Config, settings [sha256.Size]byte) *bearer {
	if config.BearerToken == "" {
		return nil
	}
	b := &bearer{settings: settings}
	b.Store(&oauth2.Token{AccessToken: config.BearerToken})
	config.BearerToken = ""
	config.Wrap(clienttransport.TokenSourceWrapTransport(b))
	return b
}

// newToken returns the token in a kubeconfig if the kubeconfig differs only by its token from the config of a link.
// Otherwise, it returns nil.
func newToken(known *link, found kubeconfig) *oauth2.Token {
	if known.made == nil || known.bearer == nil || found.err != nil || found.origin.cluster != known.origin.cluster {
		return nil
	}
	config, settings, err := parseKubeconfig(found.data)
	if err != nil || settings != known.bearer.settings {
		return nil
	}
	return &oauth2.Token{AccessToken: config.BearerToken}
}

// parseKubeconfig returns the config in a kubeconfig, and the digest of the kubeconfig without its tokens.
func parseKubeconfig(data []byte) (config *rest.Config, settings [sha256.Size]byte, err error) {
	parsed, err := clientcmd.NewClientConfigFromBytes(data)
	if err != nil {
		return nil, settings, err
	}
	if config, err = parsed.ClientConfig(); err != nil {
		return nil, settings, err
	}
	raw, err := parsed.RawConfig()
	if err != nil {
		return nil, settings, err
	}
	for _, user := range raw.AuthInfos {
		if user.Token != "" {
			user.Token = "token"
		}
	}
	rest, err := clientcmd.Write(raw)
	return config, sha256.Sum256(rest), err
}
