// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	startTimeout  = 3 * time.Minute
	probeTimeout  = 5 * time.Second
	startAttempts = 3
)

// startDistribution starts the CNCF's registry as a process.
func (r *Registry) startDistribution(ctx context.Context) (*backend, error) {
	b := &backend{transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: r.roots, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: idleConnections,
	}}
	if b.owner = withPassword(b.transport, r.accounts); r.tokens != nil {
		b.owner = r.tokens.withToken(b.transport)
	}
	var err error
	for range startAttempts {
		if err = r.startProcess(ctx, b); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (r *Registry) startProcess(ctx context.Context, b *backend) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	port, err := process.FreePort()
	if err != nil {
		return err
	}
	b.url = &url.URL{Scheme: "https", Host: process.Loopback(port)}
	config, err := yaml.Marshal(r.config(b.url.Host))
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.file("config.yaml"), config, 0o600); err != nil {
		return err
	}
	p, err := process.Start(process.Spec{
		Name:    "registry",
		Path:    r.opts.Binaries.Path(binaries.Registry),
		Args:    []string{"serve", r.file("config.yaml")},
		Env:     []string{"OTEL_TRACES_EXPORTER=none"},
		LogFile: r.file("registry.log"),
	})
	if err != nil {
		return err
	}
	if err := p.WaitHealthy(ctx, b.ping); err != nil {
		return errors.Join(err, p.Kill())
	}
	b.process = p
	return nil
}

func (r *Registry) config(addr string) map[string]any {
	config := map[string]any{
		"version": "0.1",
		"log":     map[string]any{"level": "warn", "accesslog": map[string]any{"disabled": true}},
		"storage": map[string]any{
			"filesystem": map[string]any{"rootdirectory": r.file("data")},
			"delete":     map[string]any{"enabled": true},
		},
		"http": map[string]any{
			"addr": addr,
			"tls":  map[string]any{"certificate": r.file("tls.crt"), "key": r.file("tls.key")},
		},
	}
	switch r.opts.Auth {
	case AuthBasic:
		config["auth"] = map[string]any{
			"htpasswd": map[string]any{"realm": "helmop-testbed", "path": r.file("htpasswd")},
		}
	case AuthToken:
		config["auth"] = map[string]any{"token": map[string]any{
			"realm": r.tokens.URL(), "service": tokenServiceName, "issuer": tokenIssuer,
			"rootcertbundle": r.file("ca.crt"), "signingalgorithms": []string{tokenAlgorithm.Alg()},
		}}
	}
	return config
}

// ping returns nil if the registry answers and accepts the owner.
func (b *backend) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url.String()+"/v2/", nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: b.owner}).Do(req)
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
