// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package safeconfig

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	data := rest.TLSClientConfig{
		CAData: []byte("a"), CertData: []byte("b"), KeyData: []byte("c"), Insecure: true, ServerName: "d",
	}
	files := func(tls rest.TLSClientConfig) rest.Config { return rest.Config{TLSClientConfig: tls} }
	for name, tc := range map[string]struct {
		config rest.Config
		want   string
	}{
		"nothing":        {},
		"token and data": {config: rest.Config{Host: "https://a", BearerToken: "t", TLSClientConfig: data}},
		"password":       {config: rest.Config{Username: "u", Password: "p"}},
		"program":        {config: rest.Config{ExecProvider: &clientcmdapi.ExecConfig{Command: "steal"}}, want: "(exec)"},
		"auth provider": {
			config: rest.Config{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}, want: "auth-provider",
		},
		"token file":       {config: rest.Config{BearerTokenFile: "/var/run/secrets/token"}, want: "tokenFile"},
		"certificate file": {config: files(rest.TLSClientConfig{CertFile: "/c"}), want: "client-certificate-data"},
		"key file":         {config: files(rest.TLSClientConfig{KeyFile: "/k"}), want: "client-key-data"},
		"authority file":   {config: files(rest.TLSClientConfig{CAFile: "/etc/passwd"}), want: "certificate-authority-data"},
		"pod's own authority": {
			config: files(rest.TLSClientConfig{CAFile: "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"}),
			want:   "certificate-authority-data",
		},
	} {
		got := Refusal(&tc.config)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
