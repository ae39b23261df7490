// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
)

func TestSafeKubeconfigs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ cluster, user, refused string }{
		"token": {cluster: "server: https://127.0.0.1:1", user: "token: x"},
		"data": {cluster: "certificate-authority-data: YQ==",
			user: "client-certificate-data: YQ==, client-key-data: YQ=="},
		"authority file": {cluster: "certificate-authority: /etc/ca", user: "token: x",
			refused: "certificate-authority-data"},
		"certificate file": {user: "client-certificate: /var/run/secrets/x", refused: "client-certificate-data"},
		"key file":         {user: "client-key: relative", refused: "client-key-data"},
		"token file": {user: "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
			refused: "tokenFile"},
		"program": {user: "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
			refused: "exec"},
		"auth provider": {user: "auth-provider: {name: gcp}", refused: "auth-provider"},
		"program in an unused part": {user: "token: x}}, {name: other, user: {exec: {command: sh, apiVersion: v1}",
			refused: "exec"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kubeconfig := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "one-kubeconfig"},
				Data: map[string][]byte{"value": fmt.Appendf(nil,
					"apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {%s}}]\n"+
						"users: [{name: u, user: {%s}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n",
					tc.cluster, tc.user)},
			}
			reader := SafeKubeconfigs(fake.NewClientBuilder().WithObjects(kubeconfig).Build())
			err := reader.Get(t.Context(), client.ObjectKeyFromObject(kubeconfig), &corev1.Secret{})
			if tc.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrKubeconfigRefused) || !strings.Contains(err.Error(), tc.refused) {
				t.Fatalf("got %v, want a refusal that names %q", err, tc.refused)
			}
		})
	}
}

// TestKubeconfigIsWeighed checks that a kubeconfig cannot take much memory when it is parsed. The error must not quote
// the kubeconfig.
func TestKubeconfigIsWeighed(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	large := "a: &a " + secret + strings.Repeat("x", 10<<10)
	for name, tc := range map[string]struct{ data, refused string }{
		"few aliases":   {large + "\nl: [*a, *a]", ""},
		"many aliases":  {large + "\nl: [" + strings.Repeat("*a,", 200) + "]", "without aliases"},
		"a cycle":       {"a: &a [*a]", "without aliases"},
		"not YAML":      {"a: &a x\nb: [*a\n" + secret, "without aliases"},
		"UTF-16":        {"\xff\xfea\x00:\x00 \x00b\x00", "not UTF-8 text"},
		"tag directive": {"%TAG ! tag:" + secret + "\n---\n{}", "%TAG directive"},
	} {
		err := checkKubeconfig([]byte(tc.data))
		switch {
		case tc.refused == "" && err == nil:
		case !errors.Is(err, ErrKubeconfigRefused) || !strings.Contains(err.Error(), tc.refused),
			strings.Contains(err.Error(), secret):
			t.Errorf("%s: got %v, want a refusal with %q", name, err, tc.refused)
		}
	}
}

// TestLargeKubeconfigTakesLittleMemory checks that a kubeconfig without aliases is refused before it is parsed if it
// has too many bytes or values. It counts the allocated bytes, so it is not parallel.
func TestLargeKubeconfigTakesLittleMemory(t *testing.T) { //nolint:paralleltest // other tests would allocate
	const head = "apiVersion: v1\nkind: Config\nx: ["
	for name, data := range map[string][]byte{
		"many values": []byte(head + strings.Repeat("{a},", 10<<10) + "]"),
		"also bytes":  []byte(head + strings.Repeat("{a},", 256<<10) + "]"),
		"aliases":     []byte(head + "&a {a}," + strings.Repeat("*a,", 256<<10) + "]"),
		"few values":  []byte(head + strings.Repeat("x", 65<<10) + "]"),
		"not cached":  []byte(clusterlink.LargeKubeconfig),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := checkKubeconfig(data)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrKubeconfigRefused) || !strings.Contains(err.Error(), "more than 64 KiB or 2000 values") {
			t.Errorf("%s: got %v", name, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
			t.Errorf("%s: the check allocates %d bytes", name, allocated)
		}
	}
	ca := "certificate-authority-data: " + strings.Repeat("a", 48<<10)
	if err := checkKubeconfig([]byte("clusters: [{name: c, cluster: {" + ca + "}}]")); err != nil {
		t.Errorf("a bundle of authorities: %v", err)
	}
}

func TestMalformedKubeconfigIsNotRefused(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"", "{", "[]", "users: [{name: u}]"} {
		if err := checkKubeconfig([]byte(data)); err != nil {
			t.Errorf("%q: %v", data, err)
		}
	}
}
