// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	coreProvider  = "cluster-api"
	coreNamespace = "capi-system"
	initTimeout   = 3 * time.Minute
)

// InstallOptions configure the installation of HelmOp by clusterctl.
type InstallOptions struct {
	// Repository is the folder that holds addon-helmop/<Version>/. Required.
	Repository string
	// Version is HelmOp's version, such as "v0.1.0". Required.
	Version string
	// Variables are the variables of the components file, by name. Default: none, as each variable has its own default.
	Variables map[string]string
	// ExtraArgs are added to "clusterctl init".
	ExtraArgs []string
}

// InstallHelmOp runs "clusterctl init --addon helmop" against a local repository. The Deployment that clusterctl
// creates never runs, because there is no kubelet: StartManager runs the manager instead.
//
// clusterctl installs the core provider with the first addon provider. This repository's core provider has only the
// CustomResourceDefinitions that are already installed.
//
// With ManagementOptions.Objects, HelmOp is already installed, and InstallHelmOp only writes clusterctl's
// configuration.
func (m *Management) InstallHelmOp(ctx context.Context, opts InstallOptions) (Output, error) {
	return m.init(ctx, opts, append([]string{"--addon", "helmop:" + opts.Version}, opts.ExtraArgs...)...)
}

// InstallCore runs "clusterctl init" for Cluster API alone, so that clusterctl finds the core provider installed.
func (m *Management) InstallCore(ctx context.Context) (Output, error) {
	return m.init(ctx, InstallOptions{})
}

func (m *Management) init(ctx context.Context, opts InstallOptions, more ...string) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	if err := m.writeClusterctlConfig(opts); err != nil {
		return Output{}, fmt.Errorf("prepare clusterctl's repositories: %w", err)
	}
	if m.opts.Objects != nil {
		return Output{}, nil
	}
	args := []string{
		"init", "--core", coreProvider + ":" + m.opts.Binaries.Version(binaries.CoreManager), "--bootstrap", "-",
		"--control-plane", "-",
	}
	return m.Clusterctl(ctx, append(args, more...)...)
}

func (m *Management) writeClusterctlConfig(opts InstallOptions) error {
	core, err := m.writeCoreRepository()
	if err != nil {
		return err
	}
	providers := []map[string]string{{"name": coreProvider, "type": "CoreProvider", "url": "file://" + core}}
	if opts.Repository != "" {
		addon, err := filepath.Abs(filepath.Join(opts.Repository, "addon-helmop", opts.Version, "addon-components.yaml"))
		if err != nil {
			return err
		}
		providers = append(providers, map[string]string{"name": "helmop", "type": "AddonProvider", "url": "file://" + addon})
	}
	config := map[string]any{"providers": providers}
	for name, value := range maps.All(opts.Variables) {
		config[name] = value
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(m.clusterctlConfig(), data, 0o600)
}

func (m *Management) clusterctlConfig() string { return m.file("clusterctl.yaml") }

// writeCoreRepository writes a repository of Cluster API's core provider: its namespace and its
// CustomResourceDefinitions. It returns the components file.
func (m *Management) writeCoreRepository() (string, error) {
	release := m.opts.Binaries.Version(binaries.CoreManager)
	dir, err := filepath.Abs(filepath.Join(m.file("repository"), coreProvider, release))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	components, err := m.coreComponents()
	if err != nil {
		return "", err
	}
	metadata, err := metadataFor(release)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "metadata.yaml"), metadata, 0o600); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "core-components.yaml")
	return file, os.WriteFile(file, components, 0o600)
}

func (m *Management) coreComponents() ([]byte, error) {
	crds, err := m.coreCRDs()
	if err != nil {
		return nil, err
	}
	objs := []any{&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: coreNamespace},
	}}
	for _, crd := range crds {
		objs = append(objs, crd)
	}
	var all bytes.Buffer
	for _, obj := range objs {
		data, err := yaml.Marshal(obj)
		if err != nil {
			return nil, err
		}
		// clusterctl substitutes variables in the components.
		all.Write(bytes.ReplaceAll(data, []byte("$"), []byte("$$")))
		all.WriteString("---\n")
	}
	return all.Bytes(), nil
}

// metadataFor returns the metadata.yaml of a release that implements the current contract.
func metadataFor(release string) ([]byte, error) {
	v, err := version.ParseSemantic(release)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
		"kind":       "Metadata",
		"releaseSeries": []map[string]any{
			{"major": v.Major(), "minor": v.Minor(), "contract": clusterv1.GroupVersion.Version},
		},
	})
}

// Clusterctl runs clusterctl against the management cluster, without the user's own configuration.
func (m *Management) Clusterctl(ctx context.Context, args ...string) (Output, error) {
	env := []string{
		"KUBECONFIG=" + m.kubeconfig,
		"XDG_CONFIG_HOME=" + m.file("clusterctl"),
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
	}
	if _, err := os.Stat(m.clusterctlConfig()); err == nil {
		args = append(args, "--config", m.clusterctlConfig())
	}
	return Run(ctx, m.opts.Binaries.Path(binaries.Clusterctl), env, args...)
}

// Kubectl runs kubectl against the management cluster.
func (m *Management) Kubectl(ctx context.Context, args ...string) (Output, error) {
	return Kubectl(ctx, m.opts.Binaries, m.kubeconfig, args...)
}

// ServiceAccountKubeconfig requests a token for a ServiceAccount, valid for ttl
// (at least 10 minutes), and returns a kubeconfig with it.
func (m *Management) ServiceAccountKubeconfig(ctx context.Context, namespace, name string,
	ttl time.Duration,
) ([]byte, error) {
	return m.Server.ServiceAccountKubeconfig(ctx, namespace, name, ttl)
}
