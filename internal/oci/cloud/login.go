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

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
)

const (
	opLogin        = "log in to"
	defaultTimeout = 20 * time.Second
)

// Options are the limits of a Login.
type Options struct {
	// Timeout bounds a login with all requests it takes. Default 20 s.
	Timeout time.Duration
}

// Login is an oci.CloudLogin for AWS, Azure and Google Cloud.
type Login struct {
	timeout time.Duration
}

var _ oci.CloudLogin = (*Login)(nil)

// New returns a Login. It looks for no identity before one is needed.
func New(opts Options) *Login {
	return &Login{timeout: cmp.Or(max(0, opts.Timeout), defaultTimeout)}
}

// provider is a cloud provider, with the words that its errors need.
type provider struct {
	auth.ArtifactRegistryCredentialsProvider
	// registries says what the hosts of its registries look like.
	registries string
	// hint says what to check when it gives no credential.
	hint string
}

func providerOf(name string) (provider, bool) {
	switch name {
	case aws.ProviderName:
		return provider{aws.Provider{}, "<account>.dkr.ecr.<region>.amazonaws.com or public.ecr.aws",
				"check that the controller's Pod has an IAM role (IRSA, EKS Pod Identity or the node's) that allows " +
					"ecr:GetAuthorizationToken, and for public.ecr.aws ecr-public:GetAuthorizationToken and " +
					"sts:GetServiceBearerToken"},
			true
	case azure.ProviderName:
		return provider{azure.Provider{}, "<registry>.azurecr.io",
			"check that the controller's Pod has a workload identity or a managed identity with the role AcrPull " +
				"on the registry"}, true
	case gcp.ProviderName:
		return provider{gcp.Provider{}, "<location>-docker.pkg.dev or gcr.io",
			"check that the controller's Pod has a service account by workload identity, or the node's, " +
				"with the role roles/artifactregistry.reader"}, true
	default:
		return provider{}, false
	}
}

// Login implements oci.CloudLogin. Errors are oci.ErrInvalidAccess for an unknown
// provider and for a registry that is not the provider's, oci.ErrUnreachable if
// the provider does not answer, and else oci.ErrUnauthorized.
func (l *Login) Login(ctx context.Context, providerName, repository string) (oci.CloudCredential, error) {
	cloud, ok := providerOf(providerName)
	if !ok {
		return oci.CloudCredential{}, &oci.Error{Op: opLogin, Subject: fmt.Sprintf("%q", providerName),
			Kind:   oci.ErrInvalidAccess,
			Detail: "there is no such cloud provider", Hint: "use aws, azure or gcp"}
	}
	// Only the host counts. The provider's library would take what stands before
	// the first slash for a part of the path if it does not look like a host.
	host, _, _ := strings.Cut(repository, "/")
	host = strings.TrimSuffix(host, ":443")
	if _, err := cloud.ParseArtifactRepository(host); err != nil {
		return oci.CloudCredential{}, &oci.Error{Op: opLogin, Subject: providerName, Kind: oci.ErrInvalidAccess,
			Detail: fmt.Sprintf("%q is not a registry of this provider, whose hosts are %s", host, cloud.registries),
			Hint:   "remove the provider, or add credentials to a Secret"}
	}
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	credential, err := within(limited, func() (oci.CloudCredential, error) { return login(limited, cloud, host) })
	if err != nil {
		// A caller that left is told so; who waited to the end learns why it took so long.
		return oci.CloudCredential{}, explain(ctx, providerName, cloud.hint, err)
	}
	return credential, nil
}

func login(ctx context.Context, cloud provider, host string) (oci.CloudCredential, error) {
	given, err := auth.GetArtifactRegistryCredentials(ctx, cloud, host)
	if err != nil {
		return oci.CloudCredential{}, err
	}
	config, err := given.Authorization()
	if err != nil {
		return oci.CloudCredential{}, err
	}
	if config.Username == "" || config.Password == "" {
		return oci.CloudCredential{}, errIncomplete
	}
	return oci.CloudCredential{Username: config.Username, Password: config.Password, Expires: given.ExpiresAt}, nil
}

// errIncomplete says that a provider's answer does not hold what it must.
var errIncomplete = errors.New("the response is incomplete")

// within runs a function and stops waiting for it when the context ends: not
// every SDK heeds contexts. Those that are left behind end by their own timeouts.
// A panic is an error, too: the libraries trust the answers of the providers.
func within(ctx context.Context, run func() (oci.CloudCredential, error)) (oci.CloudCredential, error) {
	type outcome struct {
		credential oci.CloudCredential
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
		return oci.CloudCredential{}, ctx.Err()
	}
}
