// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"
)

// Limits of a download. Both times are short, because a slow mirror is worse than a build. The size is several times
// the size of kube-apiserver.
const (
	connectTimeout  = 5 * time.Second
	downloadTimeout = 3 * time.Minute
	downloadLimit   = 512 << 20
)

// releasesURL serves Kubernetes' release binaries. Each binary has a .sha256 file next to it.
const releasesURL = "https://dl.k8s.io/release"

// errNotPublished means that the server answers but has no such binary.
var errNotPublished = errors.New("not published for this platform")

// download downloads the pinned version, verifies it against the published checksum and renames it into place.
func (e *ensurer) download(ctx context.Context, p program, pinned pin) error {
	if runtime.GOOS != "linux" && p.name != Kubectl {
		return errNotPublished
	}
	url := fmt.Sprintf("%s/%s/bin/%s/%s/%s", releasesURL, pinned.version, runtime.GOOS, runtime.GOARCH, p.name)
	return fetchVerified(ctx, downloadClient(), url, e.cached(p))
}

func downloadClient() *http.Client {
	dialer := &net.Dialer{Timeout: connectTimeout}
	return &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: connectTimeout,
	}}
}

// fetchVerified stores the content of url as an executable at final, if its SHA-256 equals the content of url +
// ".sha256".
func fetchVerified(ctx context.Context, client *http.Client, url, final string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	var want strings.Builder
	if err := get(ctx, client, url+".sha256", &want, 1024); err != nil {
		return err
	}
	temp, err := os.OpenFile(fmt.Sprintf("%s.tmp-%d", final, os.Getpid()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	sum := sha256.New()
	err = get(ctx, client, url, io.MultiWriter(temp, sum), downloadLimit)
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != strings.TrimSpace(want.String()) {
		return fmt.Errorf("the checksum of %s is %s, not the published one", url, got)
	}
	return os.Rename(temp.Name(), final)
}

func get(ctx context.Context, client *http.Client, url string, to io.Writer, limit int64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errNotPublished
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	n, err := io.Copy(to, io.LimitReader(resp.Body, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("GET %s: larger than %d bytes", url, limit)
	}
	return err
}
