// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	// trialVersion is an API version of the same shape as the current one.
	trialVersion = "v1beta1"
	// servingVersion serves trialVersion, storingVersion also stores it.
	servingVersion, storingVersion = "v0.1.2", "v0.1.3"
)

// migrateStorage takes the steps of docs/upgrade.md to the next API version: clusterctl upgrades to a version that
// serves it, then to one that stores it. The documented commands then store the objects of all three kinds in it. The
// manager, which uses the former API version, goes on without a change.
func (l *clusterctlLife) migrateStorage(s *scenario) {
	l.writeTrial(s, servingVersion, false)
	l.writeTrial(s, storingVersion, true)
	before, uids := s.contents(l.workloads), s.uids()
	s.must(l.manager.Stop(s.Context()))
	former := addonsv1.GroupVersion.Version
	specs := s.storedSpecs(former)
	s.clusterctl("upgrade", "apply", "--addon", "helmop:"+servingVersion)
	s.Expect(s.storedVersions()).To(gomega.HaveEach([]string{former}))
	s.clusterctl("upgrade", "apply", "--addon", "helmop:"+storingVersion)
	s.Expect(s.storedVersions()).To(gomega.HaveEach([]string{former, trialVersion}))
	path := filepath.Dir(s.env.Binaries.Path(binaries.Kubectl)) + ":" + os.Getenv("PATH")
	_, err := testbed.Run(s.Context(), "bash",
		[]string{"PATH=" + path, "KUBECONFIG=" + s.env.Management.KubeconfigFile()},
		"-euo", "pipefail", "-c", s.documented("docs/upgrade.md", "## What v1alpha1 promises", "storedVersions"))
	s.must(err)
	s.Expect(s.storedVersions()).To(gomega.And(gomega.HaveLen(3), gomega.HaveEach([]string{trialVersion})))
	s.Expect(s.uids()).To(gomega.Equal(uids))
	s.withoutFormerVersion(func() {
		// The API server cannot read an object that is stored in a version that the kind does not have.
		s.Eventually(func() map[string]any { return s.storedSpecs(trialVersion) }).Should(gomega.Equal(specs))
	})
	// A manager ends if its kinds are not served.
	s.Eventually(func() map[string]any { return s.storedSpecs(former) }).Should(gomega.Equal(specs))
	l.start(s)
	s.eventually(l.steady, ready(2))
	s.Expect(s.contents(l.workloads)).To(gomega.Equal(before))
	l.change(s)
}

// writeTrial writes a version of HelmOp whose kinds have the trial version.
func (l *clusterctlLife) writeTrial(s *scenario, version string, stored bool) {
	s.Helper()
	var all bytes.Buffer
	for _, obj := range s.decode([]byte(s.clusterctl("generate", "provider", "--addon", "helmop:"+laterVersion))) {
		if obj.GetKind() == "CustomResourceDefinition" {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			s.must(runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, crd))
			trial := crd.Spec.Versions[0].DeepCopy()
			trial.Name, trial.Storage, crd.Spec.Versions[0].Storage = trialVersion, stored, !stored
			crd.Spec.Versions = append(crd.Spec.Versions, *trial)
			var err error
			obj.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
			s.must(err)
			delete(obj.Object, "status")
		}
		data, err := yaml.Marshal(obj)
		s.must(err)
		all.WriteString("---\n")
		// clusterctl substitutes variables in the components.
		all.Write(bytes.ReplaceAll(data, []byte("$"), []byte("$$")))
	}
	folder := filepath.Join(l.repository, "addon-helmop", version)
	s.must(os.MkdirAll(folder, 0o755))
	s.must(os.WriteFile(filepath.Join(folder, "addon-components.yaml"), all.Bytes(), 0o600))
	metadata, err := os.ReadFile(filepath.Join(s.env.Root(), "metadata.yaml"))
	s.must(err)
	s.must(os.WriteFile(filepath.Join(folder, "metadata.yaml"), metadata, 0o600))
}

// kinds returns the names of the CustomResourceDefinitions of HelmOp by kind.
func kinds() map[string]string {
	return map[string]string{
		"HelmOp":         "helmops." + addonsv1.GroupVersion.Group,
		"HelmOpRelease":  "helmopreleases." + addonsv1.GroupVersion.Group,
		"HelmOpRevision": "helmoprevisions." + addonsv1.GroupVersion.Group,
	}
}

// storedVersions returns the versions in which objects are stored, by kind.
func (s *scenario) storedVersions() map[string][]string {
	s.Helper()
	versions := map[string][]string{}
	for kind, name := range kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, crd))
		versions[kind] = crd.Status.StoredVersions
	}
	return versions
}

// withoutFormerVersion does something while the kinds do not have the former API version.
func (s *scenario) withoutFormerVersion(do func()) {
	s.Helper()
	type version = apiextensionsv1.CustomResourceDefinitionVersion
	change := func(change func([]version) []version) {
		for _, name := range kinds() {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			// The API server writes conditions.
			s.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				s.must(s.client.Get(s.Context(), client.ObjectKey{Name: name}, crd))
				crd.Spec.Versions = change(crd.Spec.Versions)
				return s.client.Update(s.Context(), crd)
			}))
		}
	}
	change(func(all []version) []version {
		return slices.DeleteFunc(all, func(v version) bool { return v.Name != trialVersion })
	})
	do()
	change(func(all []version) []version {
		former := all[0].DeepCopy()
		former.Name, former.Storage = addonsv1.GroupVersion.Version, false
		return append(all, *former)
	})
}

// storedSpecs reads all objects of HelmOp in an API version, and returns their specs by kind and name. There are some
// of each kind. The result is nil while a kind is not served in the version.
func (s *scenario) storedSpecs(version string) map[string]any {
	s.Helper()
	specs := map[string]any{}
	for kind := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: addonsv1.GroupVersion.Group, Version: version,
			Kind: kind + "List"})
		if err := s.client.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			s.Logf("%s is not served in %s: %v", kind, version, err)
			return nil
		}
		s.Expect(list.Items).NotTo(gomega.BeEmpty(), kind)
		for i := range list.Items {
			one := &list.Items[i]
			specs[kind+" "+one.GetName()] = one.Object["spec"]
		}
	}
	return specs
}
