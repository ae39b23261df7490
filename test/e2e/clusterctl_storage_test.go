// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// migrateStorage carries out the steps in docs/upgrade.md for the next API version. clusterctl upgrades to a version
// that serves it, and then to a version that stores it. Then the documented commands store the objects of all three
// kinds in the new version. The manager still uses the old API version, and continues to work without a change.
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
		"-c", "cd '"+s.TempDir()+"'\n"+s.documented("docs/upgrade.md", "## What v1alpha1 promises", "storedVersions"))
	s.must(err)
	s.Expect(s.storedVersions()).To(gomega.And(gomega.HaveLen(3), gomega.HaveEach([]string{trialVersion})))
	s.Expect(s.uids()).To(gomega.Equal(uids))
	s.Expect(s.storedAs()).To(gomega.Equal(map[string]int{addonsv1.GroupVersion.Group + "/" + trialVersion: len(specs)}))
	s.Expect(s.storedSpecs(trialVersion)).To(gomega.Equal(specs))
	s.Expect(s.storedSpecs(former)).To(gomega.Equal(specs))
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

// storedAs counts the objects of HelmOp by the API version in which etcd has them.
func (s *scenario) storedAs() map[string]int {
	s.Helper()
	objects, err := s.env.Management.Server.Objects(s.Context())
	s.must(err)
	counts := map[string]int{}
	for key, pair := range objects {
		if strings.HasPrefix(key, "/registry/"+addonsv1.GroupVersion.Group+"/") {
			object := &metav1.TypeMeta{}
			s.must(json.Unmarshal(pair.Value, object))
			counts[object.APIVersion]++
		}
	}
	return counts
}

// storedSpecs reads all objects of HelmOp in an API version, and returns their specs by kind and name. There are some
// of each kind.
func (s *scenario) storedSpecs(version string) map[string]any {
	s.Helper()
	specs := map[string]any{}
	for kind := range kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: addonsv1.GroupVersion.Group, Version: version,
			Kind: kind + "List"})
		s.must(s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
		s.Expect(list.Items).NotTo(gomega.BeEmpty(), kind)
		for i := range list.Items {
			one := &list.Items[i]
			specs[kind+" "+one.GetName()] = one.Object["spec"]
		}
	}
	return specs
}
