// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"net/http"
	"time"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// credentials are the sources of credentials of an Access, in their order.
type credentials struct {
	configs  []dockerConfig // of the Access
	provider string
	fallback func() (dockerConfig, error) // of Options.CredentialsFile
	clouds   *cloudTokens                 // nil without Options.CloudLogin
	// access has the settings that the author of the HelmOp chose.
	access Access
}

// isExposed reports whether the author of the Access may be able to read the requests on a route:
// with plain HTTP, or with their own proxy or certificate authority. The manager's own credentials
// are not sent on such a route, because the author must not learn them.
func (c *credentials) isExposed(r route) bool {
	return c.access.Insecure || len(c.access.CA) > 0 || r.insecure && c.access.Proxy != nil
}

// newCredentials reads the Docker configs of an Access.
func newCredentials(access Access, fallback func() (dockerConfig, error), clouds *cloudTokens) (*credentials, error) {
	out := &credentials{provider: access.CloudProvider, fallback: fallback, clouds: clouds, access: access}
	switch {
	case out.provider == "":
	case clouds == nil:
		return nil, errors.New("the manager is not set up to log in to cloud providers")
	case access.Insecure || len(access.CA) > 0:
		return nil, errors.New("the manager's cloud identity is not used together with plain HTTP or a custom CA (ca.crt): " +
			"the author of the HelmOp could read it")
	}
	for _, data := range access.DockerConfigs {
		config, err := parseDockerConfig(data)
		if err != nil {
			return nil, err
		}
		out.configs = append(out.configs, config)
	}
	return out, nil
}

// source provides the credential for one registry.
type source struct {
	static auth.Credential
	// hint is the Error.Hint if the registry refuses static.
	hint string
	// provider is the cloud provider to log in to; empty for none. static is then used for hosts that
	// do not belong to the provider. otherHost is set if the host is not the one in the source's URL.
	provider  string
	clouds    *cloudTokens
	ref       registry.Reference
	otherHost bool
}

// source returns the source of the credential for a route: the first Docker config of the Access
// with an entry, the cloud provider, the manager's own Docker config, or none. The cloud provider
// and the manager's Docker config are not used on an exposed route, see isExposed, and not with
// Access.OnlyOwnCredentials.
func (c *credentials) source(r route) (*source, error) {
	out := &source{clouds: c.clouds, ref: r.ref, otherHost: r.otherHost, hint: hintNone}
	for _, config := range c.configs {
		credential, found, err := config.lookup(r.ref, r.insecure)
		if err != nil || found {
			out.static, out.hint = credential, hintGiven
			return out, err
		}
	}
	if c.access.OnlyOwnCredentials || c.isExposed(r) {
		return out, nil
	}
	config, err := c.fallback()
	if err != nil {
		return nil, err
	}
	out.provider = c.provider
	var found bool
	if out.static, found, err = config.lookup(r.ref, r.insecure); found {
		out.hint = hintDefault
	}
	return out, err
}

// id returns strings that identify the source. They contain secrets: hash them.
func (s *source) id() []string {
	return append(credentialID(s.static), s.provider)
}

func credentialID(c auth.Credential) []string {
	return []string{c.Username, c.Password, c.RefreshToken, c.AccessToken}
}

// credential returns the credential to use now. It records the hint for a refused credential in the
// context's exchange.
func (s *source) credential(ctx context.Context) (auth.Credential, error) {
	x := exchangeFrom(ctx)
	x.usesCredential(s.hint)
	if s.provider == "" {
		return s.static, nil
	}
	credential, err := s.clouds.get(ctx, s.provider, s.ref)
	if s.otherHost && errors.Is(err, ocierr.ErrInvalidAccess) {
		return s.static, nil
	}
	x.usesCredential(hintIdentity)
	return credential, err
}

// renewable reports whether to repeat a request because the registry refused a cached credential of
// the cloud provider. It removes the credential from the cache. began is the start of the request.
func (s *source) renewable(resp *http.Response, err error, began time.Time) bool {
	if s.provider == "" {
		return false
	}
	var answer *errcode.ErrorResponse // of a token service
	refused := resp != nil && resp.StatusCode == http.StatusUnauthorized ||
		errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized
	return refused && s.clouds.dropOlder(s.provider, s.ref, began)
}
