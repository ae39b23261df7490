// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/connections"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestCheckConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		config  *rest.Config
		refused string
	}{
		"token and data": {config: &rest.Config{BearerToken: "t",
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte("a"), CertData: []byte("b"), KeyData: []byte("c")}}},
		"nothing": {refused: "it is missing"},
		"exec":    {config: &rest.Config{ExecProvider: &clientcmdapi.ExecConfig{Command: "steal"}}, refused: "exec"},
		"auth provider": {config: &rest.Config{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}},
			refused: "auth-provider"},
		"token file": {config: &rest.Config{BearerTokenFile: "/var/run/secrets/token"}, refused: "tokenFile"},
		"certificate": {config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: "/c"}},
			refused: "client-certificate"},
		"key": {config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{KeyFile: "/k"}}, refused: "client-key"},
		"authority": {config: &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "/etc/passwd"}},
			refused: "certificate-authority"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := connections.CheckConfig(test.config)
			if test.refused == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, connections.ErrInvalidTarget) || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("got %v", err)
			}
			client := New(testRunner)
			target := model.Target{Key: "a", Config: test.config}
			_, err = client.Observe(t.Context(), target, "apps", "demo")
			helmtest.WantError(t, err, connections.ErrInvalidTarget, false, test.refused)
			_, err = client.Access(target)
			helmtest.WantError(t, err, connections.ErrInvalidTarget, false, test.refused)
		})
	}
}

// TestCheckConfigIgnoresCachedConnection checks that an invalid config is rejected although there is a cached
// connection with the same address and credentials.
func TestCheckConfigIgnoresCachedConnection(t *testing.T) {
	t.Parallel()
	client := New(testRunner)
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	if _, err := client.Access(model.Target{Key: "a", Config: config}); err != nil {
		t.Fatal(err)
	}
	changed := rest.CopyConfig(config)
	changed.ExecProvider = &clientcmdapi.ExecConfig{Command: "steal"}
	_, err := client.Access(model.Target{Key: "a", Config: changed})
	helmtest.WantError(t, err, connections.ErrInvalidTarget, false, "exec")
}

func TestAccessIdentity(t *testing.T) {
	t.Parallel()
	client := New(testRunner)
	seen := map[string]string{}
	for name, target := range map[string]model.Target{
		"one":         {Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "a"}},
		"address":     {Config: &rest.Config{Host: "https://127.0.0.1:2", BearerToken: "a"}},
		"credentials": {Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "b"}},
		"user": {Config: &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "a"},
			Impersonate: "system:serviceaccount:a:b"},
	} {
		access, err := client.Access(target)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[access.Identity]; ok {
			t.Errorf("%s and %s have one identity", name, other)
		}
		seen[access.Identity] = name
		again, err := client.Access(target)
		if err != nil || again.Identity != access.Identity {
			t.Errorf("%s changes its identity: %v", name, err)
		}
	}
}

// TestIntegrationImpersonation checks that a release is installed only with the permissions of the service account, and
// that users share discovery.
func TestIntegrationImpersonation(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	if _, err := b.kube.RbacV1().RoleBindings(b.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "tenant", Namespace: b.namespace}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The kinds of the cluster are known.
	if _, err := b.client.connections.Get(b.target); err != nil {
		t.Fatal(err)
	}
	b.converge(helmtest.DesiredFor(b.namespace, "first", "a1", "v1"), helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()),
		map[string]any{"cidr": "1"})
	b.target.Impersonate = "system:serviceaccount:" + b.namespace + ":tenant"
	desired, values := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1"), map[string]any{"cidr": "1"}
	b.waitAllowed(b.target.Impersonate)
	b.cutter.Take()
	b.converge(desired, helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}), values)
	b.wantConfigMap("demo-value", "1")
	for _, request := range b.cutter.Take() {
		if strings.HasSuffix(request, "/version") || strings.HasSuffix(request, "/apis") {
			t.Errorf("discovery is not shared: %s", request)
		}
	}
	// The service account has all permissions in its namespace, and no others.
	role := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + b.namespace +
		"\nrules: []\n"
	desired.ArtifactDigest = "a2"
	_, err := b.act(b.decide(desired, model.Policy{}), desired,
		helmtest.NewChart("2.0.0", map[string]string{"role.yaml": role}), values)
	if helmErr := helmtest.AsError(t, err); !errors.Is(helmErr, helmerr.ErrForbidden) ||
		!strings.Contains(helmErr.Message, "serviceaccount:"+b.namespace+":tenant") {
		t.Errorf("beyond its rights: %v", err)
	}
	access, err := b.client.Access(b.target)
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(access.Config)
	if err != nil {
		t.Fatal(err)
	}
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	if _, err := client.Resource(configMaps).Namespace(b.namespace).Get(t.Context(), "demo-value",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Resource(configMaps).Namespace("kube-system").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("another namespace was read")
	}
	if mapping, err := access.Mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "v1"); err != nil ||
		mapping.Resource.Resource != "deployments" {
		t.Errorf("mapping %+v, %v", mapping, err)
	}
}
