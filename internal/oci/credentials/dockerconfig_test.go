// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// noSecrets fails the test if an error contains a secret.
func noSecrets(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("error holds a secret: %v", err)
	}
}

// lookup parses a config and returns the credential for a repository.
func lookup(config []byte, ref registry.Reference, insecure bool) (auth.Credential, bool, error) {
	parsed, err := ParseDockerConfig(config)
	if err != nil {
		return auth.EmptyCredential, false, err
	}
	return parsed.lookup(ref, insecure)
}

func TestCredentialFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, config, host, repo string
		insecure                 bool
		want                     auth.Credential
		wantErr                  string
	}{
		{name: "none", host: "r.example"},
		{name: "user and password", config: `{"auths":{"r.example":{"username":"u","password":"p"}}}`, host: "r.example",
			want: auth.Credential{Username: "u", Password: "p"}},
		{name: "auth", config: `{"auths":{"r.example":{"auth":"dTpwOnE="}}}`, host: "r.example",
			want: auth.Credential{Username: "u", Password: "p:q"}},
		{name: "auth without padding", config: `{"auths":{"r.example":{"auth":"dTpwOnE"}}}`, host: "r.example",
			want: auth.Credential{Username: "u", Password: "p:q"}},
		{name: "identity token", config: `{"auths":{"r.example":{"auth":"dTo=","identitytoken":"t"}}}`, host: "r.example",
			want: auth.Credential{Username: "u", RefreshToken: "t"}},
		{name: "registry token", config: `{"auths":{"r.example":{"registrytoken":"t"}}}`, host: "r.example",
			want: auth.Credential{AccessToken: "t"}},
		{name: "port must match", config: `{"auths":{"r.example":{"username":"u"}}}`, host: "r.example:5000"},
		{name: "port", config: `{"auths":{"r.example:5000":{"username":"u"}}}`, host: "r.example:5000",
			want: auth.Credential{Username: "u"}},
		{name: "default port", config: `{"auths":{"r.example:443":{"username":"u"}}}`, host: "r.example",
			want: auth.Credential{Username: "u"}},
		{name: "default port of plain HTTP", config: `{"auths":{"r.example":{"username":"u"}}}`, host: "r.example:80",
			insecure: true,
			want:     auth.Credential{Username: "u"}},
		{name: "case and URL", config: `{"auths":{"https://R.example/v2/":{"username":"u"}}}`, host: "r.example",
			want: auth.Credential{Username: "u"}},
		{name: "longest path",
			config: `{"auths":{"r.example":{"username":"a"},"r.example/x":{"username":"b"},"r.example/x/y":{"username":"c"},"r.example/x/yz":{"username":"d"}}}`,
			host:   "r.example", repo: "x/y/z", want: auth.Credential{Username: "c"}},
		{name: "path ends at a slash", config: `{"auths":{"r.example/x":{"username":"b"}}}`, host: "r.example", repo: "xy"},
		{name: "Docker Hub", config: `{"auths":{"https://index.docker.io/v1/":{"username":"u"}}}`, host: "docker.io",
			want: auth.Credential{Username: "u"}},
		{name: "Docker Hub by its other name", config: `{"auths":{"docker.io":{"username":"u"}}}`,
			host: "registry-1.docker.io",
			want: auth.Credential{Username: "u"}},
		{name: "other host", config: `{"auths":{"evil.example":{"username":"u"}}}`, host: "r.example"},
		{name: "helpers are not run",
			config: `{"auths":{"r.example":{"username":"u"}},"credsStore":"x","credHelpers":{"r.example":"y"}}`,
			host:   "r.example",
			want:   auth.Credential{Username: "u"}},
		{name: "helper and no entries", config: `{"auths":{},"credsStore":"planted-x"}`, host: "r.example",
			wantErr: "helper"},
		{name: "helper for the host",
			config: `{"auths":{"o.example":{"username":"u"}},"credHelpers":{"r.example":"planted-x"}}`, host: "r.example",
			wantErr: "helper"},
		{name: "helper for another host", config: `{"auths":{"o.example":{"username":"u"}},"credHelpers":{"x.example":"y"}}`,
			host: "r.example"},
		{name: "entry kept by a helper", config: `{"auths":{"r.example":{}},"credsStore":"planted-x"}`, host: "r.example",
			wantErr: "helper"},
		{name: "empty entry", config: `{"auths":{"r.example":{}}}`, host: "r.example"},
		{name: "wildcard", config: `{"auths":{"*.example":{"username":"u"}}}`, host: "r.example",
			want: auth.Credential{Username: "u"}},
		{name: "wildcard is one label", config: `{"auths":{"*.example":{"username":"u"}}}`, host: "a.r.example"},
		{name: "wildcard in a label", config: `{"auths":{"*.dkr.ecr.eu-*.amazonaws.com":{"username":"u"}}}`,
			host: "1.dkr.ecr.eu-west-1.amazonaws.com",
			want: auth.Credential{Username: "u"}},
		{name: "wildcard with port and path", config: `{"auths":{"*.example:5000/charts":{"username":"u"}}}`,
			host: "r.example:5000",
			want: auth.Credential{Username: "u"}},
		{name: "wildcard with another port", config: `{"auths":{"*.example:5000":{"username":"u"}}}`, host: "r.example"},
		{name: "a host wins over a wildcard",
			config: `{"auths":{"*.example/charts":{"username":"a"},"r.example":{"username":"b"}}}`, host: "r.example",
			want: auth.Credential{Username: "b"}},
		{name: "a broken pattern is none", config: `{"auths":{"r[.example":{"username":"a"}}}`, host: "r.example"},
		{name: "IPv6", config: `{"auths":{"[::1]:5000":{"username":"u"}}}`, host: "[::1]:5000",
			want: auth.Credential{Username: "u"}},
		{name: "helpers only", config: `{"credsStore":"planted-x"}`, host: "r.example", wantErr: "helper"},
		{name: "not JSON", config: `planted-x`, host: "r.example", wantErr: "JSON"},
		{name: "wrong shape", config: `{"auths":["planted-x"]}`, host: "r.example", wantErr: "JSON"},
		{name: "not base64", config: `{"auths":{"r.example":{"auth":"planted-%%"}}}`, host: "r.example", wantErr: "base64"},
		{name: "no colon", config: `{"auths":{"r.example":{"auth":"cGxhbnRlZA=="}}}`, host: "r.example",
			wantErr: "username:password"},
		{name: "others may be broken", config: `{"auths":{"other.example":{"auth":"%%"},"r.example":{"username":"u"}}}`,
			host: "r.example",
			want: auth.Credential{Username: "u"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			repo := tc.repo
			if repo == "" {
				repo = "charts/demo"
			}
			got, _, err := lookup([]byte(tc.config), registry.Reference{Registry: tc.host, Repository: repo}, tc.insecure)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error = %v, want %q", err, tc.wantErr)
				}
				noSecrets(t, err)
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("credential = %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func FuzzCredentialFor(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v1/":{"auth":"dTpw","identitytoken":"t"}}}`), "r.example", "x/y")
	f.Add([]byte(`{"auths":{"r.example/x":{"username":"u","password":"p"}}}`), "r.example:443", "x")
	f.Add([]byte(`{"auths":{"":{}}}`), "", "")
	f.Add([]byte(`{"auths":null}`), "docker.io", "library/x")
	f.Fuzz(func(t *testing.T, config []byte, host, repo string) {
		cred, _, err := lookup(config, registry.Reference{Registry: host, Repository: repo}, false)
		if err != nil && cred != auth.EmptyCredential {
			t.Errorf("a credential beside the error %v", err)
		}
		if err != nil && len(config) > 20 && strings.Contains(err.Error(), string(config)) {
			t.Errorf("the error holds the config: %v", err)
		}
	})
}
