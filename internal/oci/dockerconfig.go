/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package oci

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// maxDockerConfig is the size limit of a Secret.
const maxDockerConfig = 1 << 20

// dockerHub is the name under which all names of Docker Hub are compared.
const dockerHub = "docker.io"

type dockerConfig struct {
	Auths map[string]dockerAuth `json:"auths"`
}

type dockerAuth struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// credentialFor returns the credential that a Docker config holds for a
// repository, or the empty one. Of several entries that match, the one with the
// longest path wins. Errors never repeat the config's content.
func credentialFor(config []byte, ref registry.Reference, insecure bool) (auth.Credential, error) {
	if len(config) == 0 {
		return auth.EmptyCredential, nil
	}
	if len(config) > maxDockerConfig {
		return auth.EmptyCredential, errors.New("the Docker config is over 1 MiB")
	}
	var parsed dockerConfig
	if json.Unmarshal(config, &parsed) != nil {
		return auth.EmptyCredential, errors.New(`the Docker config is not JSON of the form {"auths": {"host": {"auth": "…"}}}`)
	}
	if parsed.Auths == nil {
		return auth.EmptyCredential, errors.New(`the Docker config has no "auths"; credential helpers are not supported`)
	}
	host := canonicalHost(ref.Registry, insecure)
	var best dockerAuth
	bestLength, bestKey := -1, ""
	for key, entry := range parsed.Auths {
		keyHost, keyPath := splitAuthKey(key, insecure)
		if keyHost != host || !isPathPrefix(keyPath, ref.Repository) {
			continue
		}
		// Two spellings of one key are ordered by name, for the choice must not
		// depend on the order of a map.
		if len(keyPath) > bestLength || len(keyPath) == bestLength && key < bestKey {
			best, bestLength, bestKey = entry, len(keyPath), key
		}
	}
	if bestLength < 0 {
		return auth.EmptyCredential, nil
	}
	return best.credential()
}

// credential decodes an entry. Explicit username and password win over auth.
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

// splitAuthKey splits a key of "auths", which may be "host", "host:port",
// "host/path" or an URL such as "https://index.docker.io/v1/".
func splitAuthKey(key string, insecure bool) (host, path string) {
	for _, prefix := range []string{"https://", "http://", scheme} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			key = rest
			break
		}
	}
	host, path, _ = strings.Cut(key, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" {
		path = ""
	}
	return canonicalHost(host, insecure), path
}

// canonicalHost makes hosts comparable: lower case, no default port, one name
// for Docker Hub.
func canonicalHost(host string, insecure bool) string {
	port := ":443"
	if insecure {
		port = ":80"
	}
	host = strings.TrimSuffix(strings.ToLower(host), port)
	switch host {
	case "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com":
		return dockerHub
	}
	return host
}

func isPathPrefix(prefix, path string) bool {
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (prefix == "" || rest == "" || rest[0] == '/')
}
