// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/pkg/auth"
	"github.com/fluxcd/pkg/auth/aws"
	"github.com/fluxcd/pkg/auth/azure"
	"github.com/fluxcd/pkg/auth/gcp"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/credentials"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const (
	opLogin        = "log in to"
	defaultTimeout = 20 * time.Second
)

// Options are the settings of a Login.
type Options struct {
	// Timeout bounds one login with all its requests. Default 20 s.
	Timeout time.Duration
}

// Login is a credentials.CloudLogin for AWS, Azure and Google Cloud.
type Login struct {
	timeout time.Duration
}

var _ credentials.CloudLogin = (*Login)(nil)

// New returns a Login. It does not look for an identity before the first login.
func New(opts Options) *Login {
	return &Login{timeout: cmp.Or(max(0, opts.Timeout), defaultTimeout)}
}

// provider is a cloud provider with the texts for its errors.
type provider struct {
	auth.ArtifactRegistryCredentialsProvider
	// registries describes the host names of its registries.
	registries string
	// hint describes what to check if the provider returns no credential.
	hint string
}

func providerOf(name string) (provider, bool) {
	switch name {
	case aws.ProviderName:
		return provider{aws.Provider{}, "<account>.dkr.ecr.<region>.amazonaws.com or public.ecr.aws",
				"check that the manager's Pod has an IAM role (IRSA, EKS Pod Identity or the node's) that allows " +
					"ecr:GetAuthorizationToken, and for public.ecr.aws ecr-public:GetAuthorizationToken and " +
					"sts:GetServiceBearerToken"},
			true
	case azure.ProviderName:
		return provider{azure.Provider{}, "<registry>.azurecr.io",
			"check that the manager's Pod has a workload identity or a managed identity with the role AcrPull " +
				"on the registry"}, true
	case gcp.ProviderName:
		return provider{gcp.Provider{}, "<location>-docker.pkg.dev or gcr.io",
			"check that the service account of the manager's Pod (workload identity) or of its node has the role " +
				"roles/artifactregistry.reader"}, true
	default:
		return provider{}, false
	}
}

// Login implements credentials.CloudLogin. Errors are ocierr.ErrInvalidAccess for an unknown provider and for
// a registry of another provider, ocierr.ErrUnreachable if the provider does not answer, and otherwise
// ocierr.ErrUnauthorized.
func (l *Login) Login(ctx context.Context, providerName, repository string) (credentials.CloudCredential, error) {
	cloud, ok := providerOf(providerName)
	if !ok {
		return credentials.CloudCredential{}, &ocierr.Error{Op: opLogin, Subject: fmt.Sprintf("%q", providerName),
			Kind:   ocierr.ErrInvalidAccess,
			Detail: "there is no such cloud provider", Hint: "use aws, azure or gcp"}
	}
	// Pass only the host. The provider's library would treat a first segment that does not look like a
	// host as a part of the path.
	host, _, _ := strings.Cut(repository, "/")
	host = strings.TrimSuffix(host, ":443")
	if _, err := cloud.ParseArtifactRepository(host); err != nil {
		return credentials.CloudCredential{}, &ocierr.Error{Op: opLogin, Subject: providerName, Kind: ocierr.ErrInvalidAccess,
			Detail: fmt.Sprintf("%q is not a registry of this provider, whose hosts are %s", host, cloud.registries),
			Hint:   "remove the provider, or add credentials to a Secret"}
	}
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	credential, err := within(limited, func() (credentials.CloudCredential, error) { return login(limited, cloud, host) })
	if err != nil {
		// Use the context of the caller: only its own cancellation is reported as a cancellation. After the login's own
		// timeout, the caller gets the cause of the delay.
		return credentials.CloudCredential{}, explain(ctx, providerName, cloud.hint, err)
	}
	return credential, nil
}

func login(ctx context.Context, cloud provider, host string) (credentials.CloudCredential, error) {
	given, err := auth.GetArtifactRegistryCredentials(ctx, cloud, host)
	if err != nil {
		return credentials.CloudCredential{}, err
	}
	config, err := given.Authorization()
	if err != nil {
		return credentials.CloudCredential{}, err
	}
	if config.Username == "" || config.Password == "" {
		return credentials.CloudCredential{}, errIncomplete
	}
	return credentials.CloudCredential{Username: config.Username, Password: config.Password, Expires: given.ExpiresAt}, nil
}

// errIncomplete means that a provider's answer lacks a required part.
var errIncomplete = errors.New("the response is incomplete")

// within runs a function and stops waiting for it when the context ends, because not every SDK
// respects contexts. An abandoned function ends by its own timeouts. A panic becomes an error,
// because the libraries do not validate the answers of the providers.
func within(ctx context.Context, run func() (credentials.CloudCredential, error)) (credentials.CloudCredential, error) {
	type outcome struct {
		credential credentials.CloudCredential
		err        error
	}
	done := make(chan outcome, 1)
	go func() {
		out := outcome{err: errIncomplete}
		defer func() {
			_ = recover() // the error is set already
			done <- out
		}()
		out.credential, out.err = run()
	}()
	select {
	case out := <-done:
		return out.credential, out.err
	case <-ctx.Done():
		return credentials.CloudCredential{}, ctx.Err()
	}
}
