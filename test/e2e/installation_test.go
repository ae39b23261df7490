// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/queries"
)

// provider is clusterctl's name for HelmOp.
const provider = "addon-helmop"

// testInstalledByClusterctl checks that the management cluster has each object of the components, with the label that
// clusterctl needs to upgrade and delete it. It also checks the entry in clusterctl's inventory.
func testInstalledByClusterctl(s *scenario) {
	data, err := os.ReadFile(s.env.Components)
	s.must(err)
	objects := s.decode(data)
	for _, obj := range objects {
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj))
		s.Expect(obj.GetLabels()).To(gomega.HaveKeyWithValue(clusterv1.ProviderNameLabel, provider), "%s %s", obj.GetKind(),
			obj.GetName())
	}
	s.Expect(len(objects)).To(gomega.BeNumerically(">", 5))

	inventory := &unstructured.Unstructured{}
	inventory.SetAPIVersion("clusterctl.cluster.x-k8s.io/v1alpha3")
	inventory.SetKind("Provider")
	s.must(s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: provider}, inventory))
	s.Expect(inventory.Object).To(gomega.HaveKeyWithValue("version", environment.Version))
	s.Expect(inventory.Object).To(gomega.HaveKeyWithValue("type", "AddonProvider"))
}

// decode returns the objects of a file with YAML documents.
func (s *scenario) decode(data []byte) (objects []*unstructured.Unstructured) {
	s.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		s.must(err)
		objects = append(objects, obj)
	}
}

// testMetrics requests the metrics without a token, with a token that may not read them, and with one that may.
func testMetrics(s *scenario) {
	managers := s.env.Managers()
	url := "https://" + managers[len(managers)-1].DiagnosticsAddress + "/metrics"
	status, _ := s.get(url, "")
	s.Expect(status).To(gomega.BeElementOf(http.StatusUnauthorized, http.StatusForbidden))
	status, _ = s.get(url, s.serviceAccount("no-rights"))
	s.Expect(status).To(gomega.Equal(http.StatusForbidden))

	s.allowURL("reader", "/metrics")
	token := s.serviceAccount("reader")
	s.Eventually(func(g gomega.Gomega) {
		status, body := s.get(url, token)
		g.Expect(status).To(gomega.Equal(http.StatusOK))
		for _, metric := range []string{
			`helmop_releases{`, `helmop_release_action_duration_seconds_count{action="Install",result="success"} 4`,
			`helmop_registry_requests_total{kind="blob"`, `helmop_registry_received_bytes_total{`,
			`helmop_cluster_initialized_to_deployed_seconds_count 4`,
		} {
			g.Expect(body).To(gomega.ContainSubstring(metric))
		}
	}).Should(gomega.Succeed())
	testMonitoring(s, url)
}

// testMonitoring requests the metrics as Prometheus does after `kubectl apply -k config/prometheus`, and compares them
// with the queries of the alerts and the dashboard.
func testMonitoring(s *scenario, url string) {
	data, err := os.ReadFile(filepath.Join("..", "..", "config", "prometheus", "rbac.yaml"))
	s.must(err)
	reader := &corev1.ServiceAccount{}
	for _, obj := range s.decode(data) {
		s.create(obj)
		if obj.GetKind() == rbacv1.ServiceAccountKind {
			reader.Namespace, reader.Name = obj.GetNamespace(), obj.GetName()
		}
	}
	// No controller of this test bed writes tokens into Secrets.
	token := s.token(reader)
	s.Eventually(func(g gomega.Gomega) {
		status, body := s.get(url, token)
		g.Expect(status).To(gomega.Equal(http.StatusOK))
		have := queries.Parse(body)
		// These metrics have no series before something happens.
		have.Add("helmop_deletions_waiting", "namespace", "")
		have.Add("helmop_deletions_waiting", "helmop", "")
		have.Add("helmop_drift_corrections_total", "result", "success")
		g.Expect(queries.Check(have, "controller", "phase")).To(gomega.BeEmpty())
	}).Should(gomega.Succeed())
}

// serviceAccount creates a ServiceAccount and returns a token for it.
func (s *scenario) serviceAccount(name string) string {
	s.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	s.create(account)
	return s.token(account)
}

// token returns a token for a ServiceAccount.
func (s *scenario) token(account *corev1.ServiceAccount) string {
	s.Helper()
	request := &authenticationv1.TokenRequest{}
	s.must(s.client.SubResource("token").Create(s.Context(), account, request))
	return request.Status.Token
}

// testPage requests the page of the manager as testMetrics requests the metrics.
func testPage(s *scenario, helmOp *addonsv1.HelmOp) {
	managers := s.env.Managers()
	url := "https://" + managers[len(managers)-1].DiagnosticsAddress + "/ui/"
	status, _ := s.get(url, "")
	s.Expect(status).To(gomega.BeElementOf(http.StatusUnauthorized, http.StatusForbidden))
	status, _ = s.get(url, s.serviceAccount("no-page"))
	s.Expect(status).To(gomega.Equal(http.StatusForbidden))

	s.allowURL("viewer", "/ui/*")
	token := s.serviceAccount("viewer")
	view := url + "helmop/" + helmOp.Namespace + "/" + helmOp.Name
	s.Eventually(func(g gomega.Gomega) {
		status, body := s.get(view, token)
		g.Expect(status).To(gomega.Equal(http.StatusOK))
		g.Expect(body).To(gomega.And(gomega.ContainSubstring("alike"), gomega.ContainSubstring(`href="/ui/versions"`),
			gomega.ContainSubstring("the Events cannot be read")))
	}).Should(gomega.Succeed())
	status, body := s.get(url, token)
	s.Expect(status).To(gomega.Equal(http.StatusOK))
	s.Expect(body).To(gomega.ContainSubstring(helmOp.Name))
}

// allowURL permits a ServiceAccount to get a path of the manager, as an administrator would.
func (s *scenario) allowURL(account, path string) {
	s.Helper()
	name := s.namespace + "-" + account
	s.create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: []string{"get"}}},
	})
	s.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: account}},
	})
}

// get requests a URL with a bearer token, if one is given.
func (s *scenario) get(url, token string) (status int, body string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	s.must(err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The manager signs its own certificate.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<22))
	s.must(err)
	return response.StatusCode, string(content)
}
