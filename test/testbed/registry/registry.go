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

package registry

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	startTimeout  = time.Minute
	probeTimeout  = 5 * time.Second
	startAttempts = 3
	username      = "helmop"
)

// Options describe a Registry.
type Options struct {
	// Dir is the work folder: keys, logs, blobs. Required; the caller removes it after Stop.
	Dir string
	// Binaries are the programs to run. Required.
	Binaries *binaries.Set
}

// Registry is a running registry. Its methods may be called concurrently.
type Registry struct {
	dir      string
	ca       *pki.CA
	password string
	process  *process.Process
	backend  string
	client   *http.Client
	front    *front
}

// Start starts a registry and returns when it answers. On an error nothing is
// left running.
func Start(ctx context.Context, opts Options) (*Registry, error) {
	r := &Registry{dir: opts.Dir, password: rand.Text()}
	if err := r.start(ctx, opts.Binaries); err != nil {
		return nil, errors.Join(fmt.Errorf("start the registry: %w", err), r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

func (r *Registry) start(ctx context.Context, set *binaries.Set) error {
	serving, err := r.writeFiles()
	if err != nil {
		return err
	}
	for range startAttempts {
		if err = r.startProcess(ctx, set); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	r.front, err = newFront(r.backend, r.client.Transport, serving)
	return err
}

func (r *Registry) file(name string) string { return filepath.Join(r.dir, name) }

// writeFiles makes the work folder's keys and passwords and returns the
// certificate that both the registry and its front serve.
func (r *Registry) writeFiles() (tls.Certificate, error) {
	none := tls.Certificate{}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return none, err
	}
	var err error
	if r.ca, err = pki.NewCA("helmop-testbed-registry"); err != nil {
		return none, err
	}
	pair, err := r.ca.Server("registry", "127.0.0.1", "localhost")
	if err != nil {
		return none, err
	}
	// The lowest cost: the registry checks the password on every request.
	hash, err := bcrypt.GenerateFromPassword([]byte(r.password), bcrypt.MinCost)
	if err != nil {
		return none, err
	}
	files := map[string][]byte{
		"tls.crt":  pair.Cert,
		"tls.key":  pair.Key,
		"htpasswd": fmt.Appendf(nil, "%s:%s\n", username, hash),
	}
	for name, data := range files {
		if err := os.WriteFile(r.file(name), data, 0o600); err != nil {
			return none, err
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.ca.PEM())
	r.client = &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: 64,
	}}
	return tls.X509KeyPair(pair.Cert, pair.Key)
}

func (r *Registry) startProcess(ctx context.Context, set *binaries.Set) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	r.backend = process.Loopback(port)
	config, err := yaml.Marshal(r.config())
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file("config.yaml"), config, 0o600); err != nil {
		return err
	}
	p, err := process.Start(process.Spec{
		Name:    "registry",
		Path:    set.Path(binaries.Registry),
		Args:    []string{"serve", r.file("config.yaml")},
		Env:     []string{"OTEL_TRACES_EXPORTER=none"},
		LogFile: r.file("registry.log"),
	})
	if err != nil {
		return err
	}
	if err := p.WaitHealthy(ctx, r.ping); err != nil {
		return errors.Join(err, p.Kill())
	}
	r.process = p
	return nil
}

func (r *Registry) config() map[string]any {
	return map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "warn", "accesslog": map[string]any{"disabled": true}},
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": r.file("data")},
			"delete":     map[string]any{"enabled": true},
		},
		"http": map[string]any{
			"addr": r.backend,
			"tls":  map[string]any{"certificate": r.file("tls.crt"), "key": r.file("tls.key")},
		},
		"auth": map[string]any{
			"htpasswd": map[string]any{"realm": "helmop-testbed", "path": r.file("htpasswd")},
		},
	}
}

// ping succeeds when the registry accepts the password.
func (r *Registry) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.backend+"/v2/", nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(username, r.password)
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /v2/: %s", resp.Status)
	}
	return nil
}

// Stop ends the front and the registry; the work folder stays.
func (r *Registry) Stop(context.Context) error {
	var err error
	if r.front != nil {
		err = r.front.close()
	}
	if r.process != nil {
		err = errors.Join(err, r.process.Unexpected(), r.process.Kill())
	}
	return err
}

// Host returns the address that clients use, "127.0.0.1:port".
func (r *Registry) Host() string { return r.front.addr }

// CA returns the certificate of the authority that signed the registry's, in PEM.
func (r *Registry) CA() []byte { return r.ca.PEM() }

// Username returns the only user's name.
func (r *Registry) Username() string { return username }

// Password returns the only user's password, random for each Registry.
func (r *Registry) Password() string { return r.password }

// DockerConfigJSON returns the content of a kubernetes.io/dockerconfigjson
// Secret with the registry's credentials.
func (r *Registry) DockerConfigJSON() ([]byte, error) {
	auth := base64.StdEncoding.EncodeToString([]byte(username + ":" + r.password))
	return json.Marshal(map[string]any{
		"auths": map[string]any{
			r.Host(): map[string]string{"username": username, "password": r.password, "auth": auth},
		},
	})
}

// PIDs returns the registry's process id while it runs.
func (r *Registry) PIDs() []int {
	if r.process == nil || !r.process.Running() {
		return nil
	}
	return []int{r.process.PID()}
}
