// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	operatorPage = "docs/operator.md"
	// packageHost serves the folder out/addon-helmop as a package of GitLab, as docs/operator.md names it.
	packageHost = "gitlab.example.com"
	packagePath = "/api/v4/projects/42/packages/generic/helmop/"

	// podSecurityLabel is the label of a namespace for the admission of Pods.
	podSecurityLabel = "pod-security.kubernetes.io/enforce"

	// coreProviders are Cluster API for the operator. Its manager is a process of the test bed instead of a Pod.
	coreProviders = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: v1.14.0
  namespace: capi-system
  labels: {provider: cluster-api}
data:
  metadata: |
    apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
    kind: Metadata
    releaseSeries:
    - {major: 1, minor: 14, contract: v1beta2}
  components: |
    apiVersion: v1
    kind: Namespace
    metadata: {name: capi-system}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: capi-controller-manager, namespace: capi-system}
    spec:
      replicas: 0
      selector: {matchLabels: {app: manager}}
      template:
        metadata: {labels: {app: manager}}
        spec: {containers: [{name: manager, image: registry.example/cluster-api}]}
---
apiVersion: operator.cluster.x-k8s.io/v1alpha2
kind: CoreProvider
metadata:
  name: cluster-api
  namespace: capi-system
spec:
  version: v1.14.0
  fetchConfig:
    selector: {matchLabels: {provider: cluster-api}}
`
)

// operate follows docs/operator.md: Cluster API Operator installs HelmOp from a package of GitLab, and from a registry.
func (p *published) operate(s *scenario) {
	env := p.servePackage(s)
	s.startTool("capi-operator", s.env.Management.StartOperator, testbed.ToolOptions{Env: env})
	for _, obj := range s.decode([]byte(coreProviders)) {
		s.create(obj)
	}
	p.helmOp = s.newHelmOp("operated", forAll)
	s.step("installs the components from a URL", func(s *scenario) {
		p.operateInstall(s, "## Install from GitLab or GitHub")
		s.create(p.helmOp)
		s.eventually(p.helmOp, ready(2))
	})
	s.step("deletion keeps the kinds, HelmOps and releases", func(s *scenario) {
		before, uids := p.releases(s), s.uids()
		p.operateDelete(s)
		s.Expect(s.uids()).To(gomega.Equal(uids))
		p.untouched(s, before)
	})
	s.step("installs the components from a registry", func(s *scenario) {
		before := p.releases(s)
		p.operateInstall(s, "## Install from a registry")
		s.eventually(p.helmOp, ready(2))
		p.untouched(s, before)
	})
	s.step("upgrades and touches no release", func(s *scenario) {
		before := p.releases(s)
		p.shell(s, p.documented(s, operatorPage, "## Upgrade", "kubectl patch"))
		p.asClusterctl(s, laterVersion)
		s.eventually(p.helmOp, ready(2))
		p.untouched(s, before)
		p.works(s, "after the operator's upgrade")
	})
	s.step("deletion of all", func(s *scenario) {
		s.remove(p.helmOp)
		s.eventuallyGone(p.helmOp)
		p.operateDelete(s)
	})
}

// servePackage serves the folder out/addon-helmop over HTTPS, by a name that only a proxy resolves, and returns the
// variables with which the operator reaches it.
func (p *published) servePackage(s *scenario) []string {
	s.Helper()
	ca, err := pki.NewCA("helmop-packages")
	s.must(err)
	pair, err := ca.Server("packages", packageHost)
	s.must(err)
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	s.must(err)
	files := http.StripPrefix(packagePath, http.FileServer(http.Dir(filepath.Dir(p.files()))))
	server := httptest.NewUnstartedServer(files)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	s.Cleanup(server.Close)
	proxy, err := registry.StartProxy(registry.ProxyOptions{
		Routes: map[string]string{packageHost + ":443": server.Listener.Addr().String()},
	})
	s.must(err)
	s.Cleanup(func() { s.must(proxy.Stop()) })
	roots := filepath.Join(p.work, "packages-ca.pem")
	s.must(os.WriteFile(roots, ca.PEM(), 0o600))
	return []string{"HTTPS_PROXY=" + proxy.URL(), "SSL_CERT_FILE=" + roots}
}

// operateInstall runs the documented commands, which wait until the manager runs. It compares the components with the
// components from clusterctl.
func (p *published) operateInstall(s *scenario, heading string) {
	s.Helper()
	// The registry of the test has no certificate.
	commands := strings.ReplaceAll(p.documented(s, operatorPage, heading, "AddonProvider"), "oci: ", "oci: http://")
	p.shell(s, commands)
	p.asClusterctl(s, earlierVersion)
}

// asClusterctl checks that the management cluster has the components of a version as clusterctl installs them: to apply
// them changes nothing.
func (p *published) asClusterctl(s *scenario, version string) {
	s.Helper()
	components := s.decode([]byte(p.shell(s, "clusterctl generate provider --addon helmop:"+version)))
	s.Expect(len(components)).To(gomega.BeNumerically(">", 5))
	for _, obj := range components {
		installed := obj.DeepCopy()
		s.must(s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), installed))
		if obj.GetKind() == "Namespace" {
			// The operator does not change the namespace, in which its own object is.
			s.Expect(installed.GetLabels()).To(gomega.HaveKeyWithValue(podSecurityLabel, obj.GetLabels()[podSecurityLabel]))
			continue
		}
		s.must(s.client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("e2e"),
			client.ForceOwnership, client.DryRunAll))
		for _, one := range []*unstructured.Unstructured{installed, obj} {
			one.SetManagedFields(nil)
			one.SetResourceVersion("")
			unstructured.RemoveNestedField(one.Object, "status")
		}
		s.Expect(installed.Object).To(gomega.Equal(obj.Object), "%s %s", obj.GetKind(), obj.GetName())
	}
}

// operateDelete deletes the provider as documented, and checks that its components are deleted, except for the
// namespace and the kinds.
func (p *published) operateDelete(s *scenario) {
	s.Helper()
	components := s.decode([]byte(p.shell(s, "clusterctl generate provider --addon helmop:"+laterVersion)))
	p.shell(s, p.documented(s, operatorPage, "## Uninstall", "kubectl delete"))
	kept := 0
	for _, obj := range components {
		err := s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj)
		if kind := obj.GetKind(); kind == "CustomResourceDefinition" || kind == "Namespace" {
			s.must(err)
			kept++
			continue
		}
		s.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	s.Expect(kept).To(gomega.Equal(4))
	s.Eventually(func(g gomega.Gomega) {
		pods := &corev1.PodList{}
		g.Expect(s.client.List(s.Context(), pods, client.InNamespace(environment.Namespace))).To(gomega.Succeed())
		g.Expect(pods.Items).To(gomega.BeEmpty())
		err := s.client.Get(s.Context(), client.ObjectKey{Namespace: environment.Namespace, Name: environment.Deployment},
			&appsv1.Deployment{})
		g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue())
	}).Should(gomega.Succeed())
}
