// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/routes"
)

// maxDockerConfig is the maximum size of a Docker config in bytes. A Secret has the same limit.
const maxDockerConfig = 1 << 20

// DockerConfig is a Docker config file.
type DockerConfig struct {
	Auths       map[string]dockerAuth `json:"auths"`
	CredsStore  string                `json:"credsStore"`
	CredHelpers map[string]string     `json:"credHelpers"`
}

type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// errHelper means that a credential helper has the credential. HelmOp does not run helpers, because a Secret must not
// choose the program.
var errHelper = errors.New(`the Docker config refers to a credential helper ("credsStore" or "credHelpers"), ` +
	`which is not run; write the credential into "auths"`)

// ParseDockerConfig parses a Docker config file. Empty data is an empty config. Errors do not contain the content of
// the file.
func ParseDockerConfig(data []byte) (DockerConfig, error) {
	var parsed DockerConfig
	switch {
	case len(data) == 0:
		return parsed, nil
	case len(data) > maxDockerConfig:
		return parsed, errors.New("the Docker config is over 1 MiB")
	case json.Unmarshal(data, &parsed) != nil:
		return DockerConfig{}, errors.New(`the Docker config is not JSON of the form {"auths": {"host": {"auth": "…"}}}`)
	case len(parsed.Auths) == 0 && (parsed.CredsStore != "" || len(parsed.CredHelpers) > 0):
		return DockerConfig{}, errHelper
	case parsed.Auths == nil:
		return DockerConfig{}, errors.New(`the Docker config has no "auths"`)
	}
	return parsed, nil
}

// lookup returns the credential for a repository. found is true if there is an entry. If several entries match, an
// entry without wildcards in its host wins against an entry with wildcards. Between the remaining entries, the longest
// path wins.
func (c DockerConfig) lookup(ref registry.Reference, insecure bool) (cred auth.Credential, found bool, err error) {
	host := routes.CanonicalHost(ref.Registry, insecure)
	var best dockerAuth
	var bestKey authKey
	for name, entry := range c.Auths {
		key := splitAuthKey(name, insecure)
		if !key.matches(host, ref.Repository) {
			continue
		}
		if !found || key.before(bestKey) {
			best, bestKey, found = entry, key, true
		}
	}
	helper := slices.ContainsFunc(slices.Collect(maps.Keys(c.CredHelpers)), func(name string) bool {
		return splitAuthKey(name, insecure).matches(host, ref.Repository)
	})
	switch {
	case !found && helper,
		// "docker login" writes an empty entry if a helper stores the credential.
		found && best == dockerAuth{} && (helper || c.CredsStore != ""):
		return auth.EmptyCredential, false, errHelper
	case !found:
		return auth.EmptyCredential, false, nil
	}
	cred, err = best.credential()
	return cred, err == nil, err
}

// credential decodes an entry. If the entry has username and password, auth is ignored.
func (a dockerAuth) credential() (auth.Credential, error) {
	cred := auth.Credential{
		Username:     a.Username,
		Password:     a.Password,
		RefreshToken: a.IdentityToken,
		AccessToken:  a.RegistryToken,
	}
	if a.Auth == "" || a.Username != "" || a.Password != "" {
		return cred, nil
	}
	text := strings.TrimRight(a.Auth, "=\r\n ")
	decoded, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return auth.EmptyCredential, errors.New(`an "auth" in the Docker config is not base64`)
	}
	username, password, ok := strings.Cut(string(decoded), ":")
	if !ok {
		return auth.EmptyCredential, errors.New(`an "auth" in the Docker config is not base64 of "username:password"`)
	}
	cred.Username, cred.Password = username, strings.TrimRight(password, "\x00")
	return cred, nil
}

// authKey is a key of "auths".
type authKey struct {
	name, host, path string
}

// splitAuthKey splits a key of "auths". The key has the form "host", "host:port", "host/path", or is a URL such as
// "https://index.docker.io/v1/".
func splitAuthKey(name string, insecure bool) authKey {
	rest := name
	for _, prefix := range []string{"https://", "http://", routes.Scheme} {
		if after, ok := strings.CutPrefix(name, prefix); ok {
			rest = after
			break
		}
	}
	host, path, _ := strings.Cut(rest, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	return authKey{name: name, host: routes.CanonicalHost(host, insecure), path: path}
}

// matches reports whether the key applies to a repository. The host may be a pattern, as in the kubelet. "*", "?" and
// "[…]" match within one label: "*.example.com" matches "a.example.com" but not "a.b.example.com".
func (k authKey) matches(host, repository string) bool {
	if !isPathPrefix(k.path, repository) {
		return false
	}
	if k.host == host || !k.isPattern() {
		return k.host == host
	}
	pattern, patternPort, _ := strings.Cut(k.host, ":")
	name, port, _ := strings.Cut(host, ":")
	globs, labels := strings.Split(pattern, "."), strings.Split(name, ".")
	if patternPort != port || len(globs) != len(labels) {
		return false
	}
	for i, glob := range globs {
		if ok, err := path.Match(glob, labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// isPattern reports whether the host is a pattern. The brackets of an IPv6 address do not make a pattern.
func (k authKey) isPattern() bool {
	return strings.ContainsAny(k.host, "*?") || strings.Contains(k.host, "[") && !strings.HasPrefix(k.host, "[")
}

// before reports whether k wins against another matching key. Two spellings of one key are ordered by name, so the
// result does not depend on the order of a map.
func (k authKey) before(other authKey) bool {
	switch {
	case k.isPattern() != other.isPattern():
		return other.isPattern()
	case len(k.path) != len(other.path):
		return len(k.path) > len(other.path)
	}
	return k.name < other.name
}

func isPathPrefix(prefix, path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (prefix == "" || rest == "" || rest[0] == '/')
}
