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
)

// credentials say where the credentials of an Access come from, in their order.
type credentials struct {
	configs  []dockerConfig // of the Access
	provider string
	fallback func() (dockerConfig, error) // of Options.CredentialsFile
	clouds   *cloudTokens                 // nil without Options.CloudLogin
	// chosen is what whoever wrote the Access chose of the way to the registry.
	chosen Access
}

// isExposed says whether who wrote the Access may be able to read what is sent on
// a route: on plain HTTP, or by a proxy and an authority of their own. The
// controller's own credentials are not sent there, for they are not theirs to see.
func (c *credentials) isExposed(r route) bool {
	return c.chosen.Insecure || len(c.chosen.CA) > 0 || r.insecure && c.chosen.Proxy != nil
}

// newCredentials reads the Docker configs of an Access.
func newCredentials(access Access, fallback func() (dockerConfig, error), clouds *cloudTokens) (*credentials, error) {
	out := &credentials{provider: access.CloudProvider, fallback: fallback, clouds: clouds, chosen: access}
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

// source is where the credential for one registry comes from.
type source struct {
	static auth.Credential
	// hint says what to do if static is refused.
	hint string
	// provider is asked if it is set; static is then what hosts use to which the
	// provider does not belong: elsewhere says that the host is not the one that the
	// provider was given for.
	provider  string
	clouds    *cloudTokens
	ref       registry.Reference
	otherHost bool
}

// source returns where the credential for a repository comes from: the first
// Docker config with an entry, the cloud provider, the controller's own Docker
// config, nowhere. The middle two are the controller's, see isExposed.
func (c *credentials) source(r route) (*source, error) {
	out := &source{clouds: c.clouds, ref: r.ref, otherHost: r.otherHost, hint: hintNone}
	for _, config := range c.configs {
		credential, found, err := config.lookup(r.ref, r.insecure)
		if err != nil || found {
			out.static, out.hint = credential, hintGiven
			return out, err
		}
	}
	if c.isExposed(r) {
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

// id identifies the source. It holds secrets and is to be hashed.
func (s *source) id() []string {
	return append(credentialID(s.static), s.provider)
}

func credentialID(c auth.Credential) []string {
	return []string{c.Username, c.Password, c.RefreshToken, c.AccessToken}
}

// credential returns the credential to use now, and says in the context's exchange
// where it is from.
func (s *source) credential(ctx context.Context) (auth.Credential, error) {
	x := exchangeFrom(ctx)
	x.usesCredential(s.hint)
	if s.provider == "" {
		return s.static, nil
	}
	credential, err := s.clouds.get(ctx, s.provider, s.ref)
	if s.otherHost && errors.Is(err, ErrInvalidAccess) {
		return s.static, nil
	}
	x.usesCredential(hintIdentity)
	return credential, err
}

// renewable says, of an answer to a request that began at a time, whether it
// should be asked again because a kept credential was refused.
func (s *source) renewable(resp *http.Response, err error, began time.Time) bool {
	if s.provider == "" {
		return false
	}
	var answer *errcode.ErrorResponse // of a token service
	refused := resp != nil && resp.StatusCode == http.StatusUnauthorized ||
		errors.As(err, &answer) && answer.StatusCode == http.StatusUnauthorized
	return refused && s.clouds.dropOlder(s.provider, s.ref, began)
}
