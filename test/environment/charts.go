// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// These are the names of the test charts, see test/charts/README.md. Each chart is in the repository charts/<name>.
const (
	ChartHello   = "hello"
	ChartKitchen = "kitchen"
	ChartSlow    = "slow"
)

// Names of the Secrets that CreateRegistrySecrets creates.
const (
	CredentialsSecret = "registry-credentials"
	CASecret          = "registry-ca"
)

// chartVersions are the versions of each chart that Start pushes.
var chartVersions = map[string][]string{
	ChartHello:   {"1.0.0", "1.1.0", "1.2.0-rc.1", "2.0.0"},
	ChartKitchen: {"1.0.0", "1.1.0"},
	ChartSlow:    {"1.0.0", "1.1.0"},
}

func (e *Environment) pushCharts(ctx context.Context) error {
	for name, versions := range chartVersions {
		for _, version := range versions {
			if _, err := e.PushChart(ctx, "charts/"+name, ChartMetadata{Chart: name, Version: version}); err != nil {
				return err
			}
		}
	}
	return nil
}

// ChartMetadata identifies a test chart to push, with the version to set.
type ChartMetadata struct {
	// Chart is the name of the test chart.
	Chart string
	// Version is the version of the chart, and also the tag.
	Version string
	// AppVersion is the appVersion of the chart, which its objects show. Default: the appVersion in the chart's folder.
	AppVersion string
}

// PushChart pushes a test chart and returns the digest of its manifest. It moves a tag that exists.
func (e *Environment) PushChart(ctx context.Context, repository string,
	chart ChartMetadata,
) (digest string, err error) {
	files, err := e.chartFiles(chart)
	if err != nil {
		return "", fmt.Errorf("read the chart %s: %w", chart.Chart, err)
	}
	pushed, err := e.Registry.PushChart(ctx, repository, chart.Version, registry.ChartFiles(files))
	return pushed.Digest.String(), err
}

// chartFiles returns the files of a test chart, with the version set.
func (e *Environment) chartFiles(chart ChartMetadata) (map[string]string, error) {
	dir := os.DirFS(filepath.Join(e.root, "test", "charts", chart.Chart))
	files := map[string]string{}
	err := fs.WalkDir(dir, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(dir, path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		return nil, err
	}
	metadata := map[string]any{}
	if err := yaml.Unmarshal([]byte(files["Chart.yaml"]), &metadata); err != nil {
		return nil, err
	}
	metadata["version"] = chart.Version
	if chart.AppVersion != "" {
		metadata["appVersion"] = chart.AppVersion
	}
	changed, err := yaml.Marshal(metadata)
	files["Chart.yaml"] = string(changed)
	return files, err
}

// CreateRegistrySecrets creates, in a namespace, the Secrets that give access to the registry.
func (e *Environment) CreateRegistrySecrets(ctx context.Context, namespace string) error {
	credentials, err := e.Registry.DockerConfigJSON()
	if err != nil {
		return err
	}
	for _, secret := range []*corev1.Secret{{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: CredentialsSecret},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: credentials},
	}, {
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: CASecret},
		Data:       map[string][]byte{"ca.crt": e.Registry.CA()},
	}} {
		if err := e.Client.Create(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}

// Source returns a source of a repository of the registry, with the access that CreateRegistrySecrets creates.
func (e *Environment) Source(repository string, ref addonsv1.ArtifactReference) addonsv1.ArtifactSource {
	return addonsv1.ArtifactSource{
		URL:           "oci://" + e.Registry.Host() + "/" + repository,
		Ref:           ref,
		SecretRef:     &addonsv1.SecretReference{Name: CredentialsSecret},
		CertSecretRef: &addonsv1.SecretReference{Name: CASecret},
	}
}
