// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/pki"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/process"
)

const (
	// readyTimeout is how long a manager may take to become ready.
	readyTimeout = 3 * time.Minute
	probeTimeout = 5 * time.Second
)

// startCore runs Cluster API's core manager. Its webhooks are served but not registered, because the tests do not need
// their defaults.
func (m *Management) startCore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	certs := m.file("core-webhook-certs")
	if _, err := writeServingCert(certs); err != nil {
		return err
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return err
	}
	health := process.Loopback(ports[0])
	p, err := process.Start(process.Spec{
		Name: binaries.CoreManager,
		Path: m.opts.Binaries.Path(binaries.CoreManager),
		Args: []string{
			"--kubeconfig=" + m.kubeconfig,
			"--health-addr=" + health,
			"--diagnostics-address=" + process.Loopback(ports[1]),
			"--insecure-diagnostics",
			fmt.Sprintf("--webhook-port=%d", ports[2]),
			"--webhook-cert-dir=" + certs,
			// Off by default. Hooks of upgrades, annotations for example, need RuntimeSDK.
			"--feature-gates=ClusterTopology=true,RuntimeSDK=true",
			"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
			// The default of 20 requests per second delays many Clusters at once.
			"--kube-api-qps=200",
			"--kube-api-burst=400",
		},
		// A core manager in a pod finds its namespace by itself.
		Env:     []string{"POD_NAMESPACE=" + coreNamespace},
		LogFile: m.file("capi-core-manager.log"),
	})
	if err != nil {
		return err
	}
	if err := p.WaitHealthy(ctx, func(ctx context.Context) error {
		return probe(ctx, "http://"+health+"/readyz")
	}); err != nil {
		return errors.Join(err, p.Kill())
	}
	m.core = p
	return nil
}

// writeServingCert writes a certificate for webhooks on this machine, and returns its authority.
func writeServingCert(dir string) (*pki.CA, error) {
	ca, err := pki.NewCA("webhooks")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Server("webhooks", "127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), pair.Cert, 0o600); err != nil {
		return nil, err
	}
	return ca, os.WriteFile(filepath.Join(dir, "tls.key"), pair.Key, 0o600)
}

// probe requires status 200 of url.
func probe(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}

// certManagerCRDs returns the part of cert-manager that clusterctl checks. clusterctl takes cert-manager as installed
// if an Issuer and a Certificate can be created.
func certManagerCRDs() []*apiextensionsv1.CustomResourceDefinition {
	crd := func(kind, plural, singular string) *apiextensionsv1.CustomResourceDefinition {
		return anyCRD(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind}, plural, singular)
	}
	return []*apiextensionsv1.CustomResourceDefinition{
		crd("Issuer", "issuers", "issuer"), crd("Certificate", "certificates", "certificate"),
	}
}

// anyCRD returns the CustomResourceDefinition of a kind that may have any fields.
func anyCRD(kind schema.GroupVersionKind, plural, singular string) *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + kind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kind.Group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, ListKind: kind.Kind + "List",
				Plural: plural, Singular: singular},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep},
				},
			}},
		},
	}
}
