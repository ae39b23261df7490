// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
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
		if ref, err := routes.ParseURL(url); err != nil || ref.Reference != "" || scheme+ref.String() != url {
			t.Errorf("URL %q became %q, %v", url, ref, err)
		}
	})
}
