// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestValidate(t *testing.T) {
	t.Parallel()
	const good = "oci://registry.example/charts/demo"
	for _, tc := range []struct {
		name, url string
		ref       Reference
		wantErr   string
	}{
		{name: "tag", url: good, ref: Reference{Tag: "1.0.0"}},
		{name: "port", url: "oci://registry.example:5000/demo", ref: Reference{Tag: "v1"}},
		{name: "IPv6", url: "oci://[::1]:5000/demo", ref: Reference{Tag: "v1"}},
		{name: "build metadata", url: good, ref: Reference{Tag: "1.0.0+build"}},
		{name: "digest", url: good, ref: Reference{Digest: someDigest}},
		{name: "range", url: good, ref: Reference{Semver: ">=1.0.0-0 <2"}},
		{name: "no scheme", url: "registry.example/demo", ref: Reference{Tag: "1"}, wantErr: "oci://"},
		{name: "https", url: "https://registry.example/demo", ref: Reference{Tag: "1"}, wantErr: "oci://"},
		{name: "no path", url: "oci://registry.example", ref: Reference{Tag: "1"}, wantErr: "path"},
		{name: "no port", url: "oci://registry.example:/demo", ref: Reference{Tag: "1"}, wantErr: "port"},
		{name: "tag in URL", url: good + ":1.0.0", ref: Reference{Tag: "1"}, wantErr: "tag"},
		{name: "empty tag in URL", url: good + ":", ref: Reference{Tag: "1"}, wantErr: "tag"},
		{name: "dot at the end", url: "oci://registry.example./demo", ref: Reference{Tag: "1"}, wantErr: "trailing dot"},
		{name: "dot before the port", url: "oci://registry.example.:443/demo", ref: Reference{Tag: "1"},
			wantErr: "trailing dot"},
		{name: "zeros before the port", url: "oci://registry.example:0443/demo", ref: Reference{Tag: "1"}, wantErr: "zeros"},
		{name: "port", url: "oci://registry.example:5000/demo", ref: Reference{Tag: "1"}},
		{name: "international host", url: "oci://r\u00e4gistry.example/demo", ref: Reference{Tag: "1"}, wantErr: "xn--"},
		{name: "host of any bytes", url: "oci://\x9e\x9er/u", ref: Reference{Tag: "1"}, wantErr: "host"},
		{name: "digest in URL", url: good + "@" + someDigest, ref: Reference{Tag: "1"}, wantErr: "digest"},
		{name: "upper case", url: "oci://registry.example/Demo", ref: Reference{Tag: "1"}, wantErr: "lower case"},
		{name: "query", url: good + "?x=y", ref: Reference{Tag: "1"}, wantErr: "path"},
		{name: "long", url: good + strings.Repeat("a", 2000), ref: Reference{Tag: "1"}, wantErr: "longer"},
		{name: "nothing", url: good, wantErr: "must be set"},
		{name: "two", url: good, ref: Reference{Tag: "1", Semver: "1"}, wantErr: "exactly one"},
		{name: "bad tag", url: good, ref: Reference{Tag: "a/b"}, wantErr: "not a tag"},
		{name: "tag with newline", url: good, ref: Reference{Tag: "a\n"}, wantErr: "not a tag"},
		{name: "bad digest", url: good, ref: Reference{Digest: "sha256:abc"}, wantErr: "not a digest"},
		{name: "unknown algorithm", url: good, ref: Reference{Digest: "md5:abc"}, wantErr: "not a digest"},
		{name: "bad range", url: good, ref: Reference{Semver: "banana"}, wantErr: "range"},
		{name: "range of build metadata", url: good, ref: Reference{Semver: "1.0.0+b"}},
		{name: "filter", url: good, ref: Reference{TagFilter: `^main-\d+$`}},
		{name: "filter and range", url: good, ref: Reference{Semver: "^1", TagFilter: "-alpine"}},
		{name: "filter and tag", url: good, ref: Reference{Tag: "1", TagFilter: "x"}, wantErr: "not with a tag or a digest"},
		{name: "filter and digest", url: good, ref: Reference{Digest: someDigest, TagFilter: "x"},
			wantErr: "not with a tag or a digest"},
		{name: "filter and two", url: good, ref: Reference{Digest: someDigest, Semver: "1", TagFilter: "x"},
			wantErr: "exactly one"},
		{name: "bad filter", url: good, ref: Reference{TagFilter: "^main-[0-9$"}, wantErr: "missing closing ] at \"[0-9$\""},
		{name: "filter of another dialect", url: good, ref: Reference{TagFilter: "^(?!rc)"},
			wantErr: "invalid or unsupported Perl syntax at \"(?!\""},
		{name: "bad filter with good range", url: good, ref: Reference{Semver: "1", TagFilter: "("},
			wantErr: "not a tag filter"},
		{name: "bad range with good filter", url: good, ref: Reference{Semver: "x y", TagFilter: "a"},
			wantErr: "not a version range"},
		{name: "long filter", url: good, ref: Reference{TagFilter: strings.Repeat("a", 257)}, wantErr: "longer"},
		{name: "filter of many repetitions", url: good, ref: Reference{TagFilter: strings.Repeat(".{0,900}", 10)},
			wantErr: "repetition counts"},
		{name: "long range", url: good, ref: Reference{Semver: strings.Repeat("1,", 1000)}, wantErr: "longer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := Source{URL: tc.url, Ref: tc.ref}.Validate()
			if tc.wantErr == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ocierr.ErrInvalidReference) || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error = %v, want ErrInvalidReference with %q", err, tc.wantErr)
			}
		})
	}
	err := Source{URL: "oci://planted-user:planted-password@registry.example/demo", Ref: Reference{Tag: "1"}}.Validate()
	if !errors.Is(err, ocierr.ErrInvalidReference) {
		t.Fatalf("credentials in the URL: error = %v", err)
	}
	noSecrets(t, err)
}

// lookup reads a config and looks into it.
func lookup(config []byte, ref registry.Reference, insecure bool) (auth.Credential, bool, error) {
	parsed, err := parseDockerConfig(config)
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

func FuzzSource(f *testing.F) {
	for _, url := range []string{"oci://r.example/x", "oci://r:1/x/y", "oci://[::1]/x", "oci://u:p@r/x", "oci:///",
		"oci://r/x:1", "oci://r/\x00"} {
		f.Add(url, "1.0.0+x", "", "", "")
		f.Add(url, "", someDigest, "", "")
		f.Add(url, "", "", ">=1.0.0-0 <2 || ~3", "")
		f.Add(url, "", "", "", `^(?i:main)-\d{1,9}(-[[:xdigit:]]+)?$`)
		f.Add(url, "", "", "~1.2", `(a{1,900}){1,900}|\pL*`)
	}
	f.Fuzz(func(t *testing.T, url, tag, dgst, semver, filter string) {
		src := Source{URL: url, Ref: Reference{Tag: tag, Digest: dgst, Semver: semver, TagFilter: filter}}
		err := src.Validate()
		if err != nil {
			if !errors.Is(err, ocierr.ErrInvalidReference) {
				t.Errorf("error without a kind: %v", err)
			}
			return
		}
		if strings.ContainsAny(url, "@ \n?#") {
			t.Errorf("URL %q was let through", url)
		}
		if ref, err := parseURL(url); err != nil || ref.Reference != "" || scheme+ref.String() != url {
			t.Errorf("URL %q became %q, %v", url, ref, err)
		}
	})
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
