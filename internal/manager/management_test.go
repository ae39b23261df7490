// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
)

// A pod's own config names files, but the config for a workload cluster must not name files.
func TestWithoutFiles(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		req *http.Request) {
		got = req.Header.Get("Authorization")
	}))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of the pod"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := &rest.Config{Host: server.URL, BearerTokenFile: token}
	if connections.CheckConfig(own) == nil {
		t.Error("the engine takes a config that names files")
	}
	in, err := withoutFiles(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := connections.CheckConfig(in); err != nil {
		t.Error(err)
	}
	host, err := rest.HTTPClientFor(in)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := host.Get(in.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if got != "Bearer of the pod" {
		t.Errorf("the API server got %q", got)
	}
}

func TestFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for flag, values := range map[string]map[string]bool{
		"gc-percent": {"25": true, "1": true, "0": false, "-1": false},
		"record-storage-url": {"": true, "oci://registry.example.com/records": true,
			"registry.example.com/records": false, "oci://registry.example.com/records:v1": false},
		"record-storage-former-urls": {"oci://a.example.com/r,oci://b.example.com/r": true, "oci://a.example.com/r,b": false},
	} {
		for value, valid := range values {
			options := &Options{}
			fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			options.AddFlags(fs)
			if err := fs.Set(flag, value); err != nil {
				t.Fatal(err)
			}
			if err := options.Validate(); (err == nil) != valid {
				t.Errorf("--%s=%q: %v", flag, value, err)
			}
		}
	}
}

func TestManagementClusterNamespaces(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{"": true, "a": true, "a,b-1": true, "*": false, "a/b": false, "A": false} {
		options := &Options{}
		fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
		options.AddFlags(fs)
		if err := fs.Set("management-cluster-namespaces", value); err != nil {
			t.Fatal(err)
		}
		if err := options.Validate(); (err == nil) != valid {
			t.Errorf("--management-cluster-namespaces=%q: %v", value, err)
		}
	}
}
