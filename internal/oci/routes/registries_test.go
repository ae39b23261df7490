// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"oras.land/oras-go/v2/registry"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestParseRegistriesRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ config, want string }{
		"not TOML":          {"[[registry]", "toml"},
		"unknown key":       {"[[registry]]\nlocation=\"r.example\"\nmirrors=1", "registry.mirrors"},
		"unknown key above": {"registry-mirrors=[]", "registry-mirrors"},
		"unknown mirror key": {"[[registry]]\nlocation=\"r.example\"\n[[registry.mirror]]\nlocation=\"m.example\"\nskip=true",
			"registry.mirror.skip"},
		"version 1":          {"[registries.search]\nregistries=[\"r.example\"]", "version 1"},
		"helper":             {"credential-helpers=[\"secretservice\"]", "credential-helpers"},
		"no place":           {"[[registry]]\ninsecure=true", "prefix or location"},
		"URL":                {"[[registry]]\nlocation=\"https://r.example\"", "location"},
		"tag":                {"[[registry]]\nlocation=\"r.example/x:1\"", "host[:port]"},
		"digest":             {"[[registry]]\nlocation=\"r.example/x@" + someDigest + "\"", "host[:port]"},
		"wildcard with path": {"[[registry]]\nprefix=\"*.example/x\"", "wildcard"},
		"wildcard inside":    {"[[registry]]\nprefix=\"a.*.example\"", "prefix"},
		"wildcard location":  {"[[registry]]\nprefix=\"r.example\"\nlocation=\"*.example\"", "location"},
		"empty mirror":       {"[[registry]]\nlocation=\"r.example\"\n[[registry.mirror]]\ninsecure=true", "mirror 1"},
		"unknown pull":       {"[[registry]]\nlocation=\"r.example\"\n[[registry.mirror]]\nlocation=\"m.example\"\npull-from-mirror=\"x\"", "pull-from-mirror"},
		"contradiction":      {"[[registry]]\nlocation=\"r.example\"\nmirror-by-digest-only=true\n[[registry.mirror]]\nlocation=\"m.example\"\npull-from-mirror=\"all\"", "mirror-by-digest-only"},
		"same prefix twice": {"[[registry]]\nlocation=\"docker.io\"\n[[registry]]\nprefix=\"index.docker.io\"",
			"duplicate prefix"},
		"wrong type of value": {"[[registry]]\nlocation=\"r.example\"\nblocked=\"yes\"", "blocked"},
	} {
		if _, err := ParseRegistries([]byte(tc.config)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error = %v, want one with %q", name, err, tc.want)
		}
	}
}

// usualRegistries has the registries file of Linux distributions, with additional entries.
const usualRegistries = `
unqualified-search-registries = ["registry.access.redhat.com", "docker.io"]
short-name-mode = "enforcing"
credential-helpers = ["containers-auth.json"]
additional-layer-store-auth-helper = "x"

[aliases]
"fedora" = "registry.fedoraproject.org/fedora"

[[registry]]
prefix = "r.example/moved"
location = "Internal.example:5000/store"
insecure = true

[[registry]]
location = "r.example"
insecure = false
[[registry.mirror]]
location = "m1.example/proxy/r"
[[registry.mirror]]
location = "m2.example:5000"
insecure = true
pull-from-mirror = "digest-only"
[[registry.mirror]]
location = "m3.example"
pull-from-mirror = "tag-only"

[[registry]]
prefix = "*.wild.example"
[[registry.mirror]]
location = "m.example/wild"

[[registry]]
prefix = "special.wild.example"
location = "elsewhere.example"

[[registry]]
prefix = "docker.io"
mirror-by-digest-only = true
[[registry.mirror]]
location = "hub.example"

[[registry]]
prefix = "evil.example"
blocked = true
[[registry.mirror]]
location = "m.example"

[[registry]]
prefix = "r.example/own"
location = "r.example/own/deeper"

[[registry]]
prefix = "*.moved.example"
location = "moved.example"
`

func TestRoutes(t *testing.T) {
	t.Parallel()
	config, err := ParseRegistries([]byte(usualRegistries))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name     string
		insecure bool
		want     []string // the protocol, the repository and the purpose of each route
	}{
		{name: "other.example/x", want: []string{"https other.example/x"}},
		{name: "other.example/x", insecure: true, want: []string{"http other.example/x"}},
		{name: "r.example/x/y", want: []string{"https m1.example/proxy/r/x/y all", "http m2.example:5000/x/y digest-only",
			"https m3.example/x/y tag-only", "https r.example/x/y"}},
		{name: "R.example:443/x", want: []string{"https m1.example/proxy/r/x all", "http m2.example:5000/x digest-only",
			"https m3.example/x tag-only", "https R.example:443/x"}},
		{name: "r.example:5000/x", want: []string{"https r.example:5000/x"}},
		{name: "r.example.com/x", want: []string{"https r.example.com/x"}},
		{name: "r.example/moved/x", want: []string{"http internal.example:5000/store/x"}},
		{name: "r.example/movedx", want: []string{"https m1.example/proxy/r/movedx all",
			"http m2.example:5000/movedx digest-only",
			"https m3.example/movedx tag-only", "https r.example/movedx"}},
		{name: "r.example/own/x", insecure: true, want: []string{"http r.example/own/deeper/x"}},
		{name: "a.wild.example/x", want: []string{"https m.example/wild/x all", "https a.wild.example/x"}},
		{name: "a.b.wild.example/x", want: []string{"https m.example/wild/x all", "https a.b.wild.example/x"}},
		{name: "wild.example/x", want: []string{"https wild.example/x"}},
		{name: "special.wild.example/x", want: []string{"https elsewhere.example/x"}},
		{name: "a.moved.example/x", want: []string{"https moved.example/x"}},
		{name: "registry-1.docker.io/library/x",
			want: []string{"https hub.example/library/x digest-only", "https registry-1.docker.io/library/x"}},
	} {
		ref, err := registry.ParseReference(tc.name)
		if err != nil {
			t.Fatal(err)
		}
		routes, err := config.Routes(ref, tc.insecure)
		var got []string
		for _, r := range routes {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Protocol(), r.Ref, r.Pull)))
			if r.IsMirror != (r.Pull != "") {
				t.Errorf("%s: %s: mirror = %t", tc.name, r.Ref, r.IsMirror)
			}
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: routes = %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
	if _, err := config.Routes(registry.Reference{Registry: "evil.example", Repository: "x"}, false); !errors.Is(err,
		ErrBlocked) {
		t.Errorf("error = %v, want ErrBlocked", err)
	}
}

// TestRegistryRulesMatchAllSpellings checks that a rule for a host matches all spellings of the host in a valid URL.
func TestRegistryRulesMatchAllSpellings(t *testing.T) {
	t.Parallel()
	for prefix, names := range map[string][]string{
		"evil.example":      {"evil.example", "EVIL.example", "evil.example:443", "evil.example:80"},
		"evil.example:80":   {"evil.example", "evil.example:80", "Evil.Example:80"},
		"evil.example:443":  {"evil.example", "evil.example:443"},
		"evil.example:5000": {"Evil.example:5000"},
		"*.example":         {"evil.example:80", "EVIL.example:443"},
		"[fd00::1]":         {"[fd00:0:0::0001]", "[FD00::1]:80"},
		"192.0.2.1":         {"[::ffff:192.0.2.1]", "192.0.2.1:443"},
	} {
		config, err := ParseRegistries([]byte(fmt.Sprintf("[[registry]]\nprefix = %q\nblocked = true", prefix)))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			ref, err := ParseURL(Scheme + name + "/x")
			if err != nil {
				t.Fatal(err)
			}
			for _, insecure := range []bool{false, true} {
				if _, err := config.Routes(ref, insecure); !errors.Is(err, ErrBlocked) {
					t.Errorf("%s passes by the rule for %s, insecure = %t", name, prefix, insecure)
				}
			}
		}
	}
}

func TestLocationKeepsItsPort(t *testing.T) {
	t.Parallel()
	config, err := ParseRegistries([]byte("[[registry]]\nprefix='a.example'\nlocation='b.example:443'\ninsecure=true\n" +
		"[[registry.mirror]]\nlocation='m.example:443'\ninsecure=true"))
	if err != nil {
		t.Fatal(err)
	}
	routes, err := config.Routes(registry.Reference{Registry: "a.example", Repository: "x"}, false)
	if err != nil || len(routes) != 2 || routes[0].Ref.Registry != "m.example:443" ||
		routes[1].Ref.Registry != "b.example:443" {
		t.Errorf("routes = %v, %v", routes, err)
	}
}

func TestExactPrefixPrecedesWildcardOfEqualLength(t *testing.T) {
	t.Parallel()
	config,
		err := ParseRegistries([]byte("[[registry]]\nprefix='*.example.com'\nlocation='a.internal'\n[[registry]]\nprefix='x.example.com'\nlocation='b.internal'"))
	if err != nil {
		t.Fatal(err)
	}
	routes, err := config.Routes(registry.Reference{Registry: "x.example.com", Repository: "y"}, false)
	if err != nil || routes[0].Ref.Registry != "b.internal" {
		t.Errorf("routes = %v, %v", routes, err)
	}
}

func TestRouteServes(t *testing.T) {
	t.Parallel()
	for path, digest := range map[string]bool{
		"/v2/x/manifests/1.0.0":                   false,
		"/v2/x/manifests/" + someDigest:           true,
		"/v2/x/blobs/" + someDigest:               true,
		"/v2/x/referrers/" + someDigest:           true,
		"/v2/x/tags/list":                         false,
		"/v2/x/manifests/sha256-0123456789abcdef": false,
	} {
		for pull, want := range map[string]bool{"": true, pullAll: true, pullDigestOnly: digest, pullTagOnly: !digest} {
			if got := (Route{Pull: pull}).Serves(path); got != want {
				t.Errorf("%s %q: serves = %t", path, pull, got)
			}
		}
	}
}

func FuzzRegistries(f *testing.F) {
	f.Add([]byte(usualRegistries), "r.example/x")
	f.Add([]byte("[[registry]]\nprefix='*.a'\n[[registry.mirror]]\nlocation='b'"), "x.a/y")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		config, err := ParseRegistries(data)
		ref, refErr := registry.ParseReference(name)
		if err != nil || refErr != nil {
			return
		}
		routes, err := config.Routes(ref, false)
		if err == nil && (len(routes) == 0 || routes[len(routes)-1].IsMirror) {
			t.Errorf("routes of %q = %v, want the registry itself as the last", name, routes)
		}
		for _, r := range routes {
			if r.Ref.Registry == "" || r.Ref.Repository == "" {
				t.Errorf("%q became %v", name, r.Ref)
			}
		}
	})
}
