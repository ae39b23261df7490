// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Diagnostics is the address at which a manager serves metrics and profiles, over HTTPS to authorized users.
type Diagnostics struct {
	address, token string
	client         *http.Client
}

// NewDiagnostics returns the diagnostics at a loopback address.
func NewDiagnostics(address, token string) *Diagnostics {
	return &Diagnostics{address: address, token: token, client: &http.Client{Transport: &http.Transport{
		// The manager creates the certificate at its start, without a host name.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // It is on this machine.
	}}}
}

func (d *Diagnostics) get(ctx context.Context, path string) (io.ReadCloser, error) {
	return get(ctx, d.client, "https://"+d.address+path, d.header())
}

func (d *Diagnostics) header() http.Header {
	return http.Header{"Authorization": {"Bearer " + d.token}}
}

func get(ctx context.Context, client *http.Client, url string, header http.Header) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("GET %s: %s", url, resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}

// Metrics returns the metrics.
func (d *Diagnostics) Metrics(ctx context.Context) (Metrics, error) {
	return Read(ctx, d.client, "https://"+d.address+"/metrics", d.header())
}

// Read returns the metrics at a URL.
func Read(ctx context.Context, client *http.Client, url string, header http.Header) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body, err := get(ctx, client, url, header)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(body)
	return Metrics(data), errors.Join(err, body.Close())
}

// Save stores the content of a path, such as a profile, in a file.
func (d *Diagnostics) Save(ctx context.Context, path, file string) error {
	body, err := d.get(ctx, path)
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return errors.Join(err, body.Close())
	}
	_, err = io.Copy(out, body)
	return errors.Join(err, out.Close(), body.Close())
}

// CollectGarbage triggers a garbage collection in the manager, so that the remaining heap is in use.
func (d *Diagnostics) CollectGarbage(ctx context.Context) error {
	body, err := d.get(ctx, "/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

// Metrics are metrics in the text format of Prometheus.
type Metrics string

// Sum adds up the series of a metric that have all of the given labels, each written as name="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	total := 0.0
	for line := range strings.Lines(string(m)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		if at < 0 || !containsAll(rest[:at], labels) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[at:]), 64)
		if err == nil {
			total += value
		}
	}
	return total
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}
