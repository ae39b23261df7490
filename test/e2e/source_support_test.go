// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// chartRepository is the repository of the charts in this file.
const chartRepository = "charts/note"

// startRegistry starts a registry for a part of a scenario. A failing registry must not share its address: the manager
// pauses all requests to an address that does not answer.
func (s *scenario) startRegistry(opts registry.Options) *registry.Registry {
	s.Helper()
	var err error
	opts.Dir, err = os.MkdirTemp(suite.dir, "registry-")
	s.must(err)
	opts.Binaries = s.env.Binaries
	r, err := registry.Start(s.Context(), opts)
	s.must(err)
	s.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			s.Error(err)
		}
	})
	return r
}

// uniqueNote returns the chart note with content that no other test has: the manager does not pull content that is in
// its store.
func uniqueNote(version string) registry.Chart {
	return registry.ChartFiles(uniqueNoteFiles(version))
}

func uniqueNoteFiles(version string) map[string]string {
	return map[string]string{
		"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: note\ndescription: Contains a text. %s\nversion: %s\n", rand.Text(),
			version),
		"templates/note.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  namespace: {{ .Release.Namespace }}
data:
  chartVersion: {{ .Chart.Version | quote }}
`,
	}
}

// pushUnique pushes a unique chart under its version and returns the digest of its manifest.
func (s *scenario) pushUnique(r *registry.Registry, repository, version string) string {
	s.Helper()
	pushed, err := r.PushChart(s.Context(), repository, version, uniqueNote(version))
	s.must(err)
	return pushed.Digest.String()
}

// bare makes a HelmOp use a chart from a registry without any credentials or certificates.
func (s *scenario) bare(r *registry.Registry, name, repository string,
	ref addonsv1.ArtifactReference,
) *addonsv1.HelmOp {
	return s.newHelmOp(name, forAll, func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.Values = nil
		helmOp.Spec.Source = addonsv1.ArtifactSource{
			URL: "oci://" + r.Host() + "/" + repository, Ref: ref, Interval: metav1.Duration{Duration: shortInterval},
		}
	})
}

// opaque creates a Secret and returns the reference to it.
func (s *scenario) opaque(name string, data map[string][]byte) *addonsv1.SecretReference {
	s.Helper()
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Data: data})
	return &addonsv1.SecretReference{Name: name}
}

// pullSecret creates a Secret with the password of a user for a host and returns the reference to it.
func (s *scenario) pullSecret(name, host, user, password string) *addonsv1.SecretReference {
	s.Helper()
	config, err := registry.DockerConfig(host, user, password)
	s.must(err)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: config},
	})
	return &addonsv1.SecretReference{Name: name}
}

// users returns the users whose credentials were sent with the answered requests to a registry.
func users(r *registry.Registry, repository string) []string {
	var names []string
	for _, request := range r.Requests(registry.In(repository)) {
		if request.Authorization != "" && request.Code < 300 {
			names = append(names, request.User)
		}
	}
	return names
}

// unresolved checks that the condition of a HelmOp names the error of its source and the remedy, in a short message.
func unresolved(reason string, texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		expectCondition(g, helmOp, addonsv1.ResolvedCondition, metav1.ConditionFalse, reason)
		message(addonsv1.ResolvedCondition, texts...)(g, helmOp)
		g.Expect(len(toJSON(helmOp.Status.Conditions))).To(gomega.BeNumerically("<", 8<<10))
	}
}

// resolved checks that the source of a HelmOp is resolved.
func resolved(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
	expectCondition(g, helmOp, addonsv1.ResolvedCondition, metav1.ConditionTrue, addonsv1.ResolvedReason)
}

// mountedFile is a file whose path is a flag of the manager, like a mounted ConfigMap or Secret.
type mountedFile struct {
	path string
	mu   sync.Mutex
	text string
}

// newMountedFile creates a file with some content.
func newMountedFile(path, content string) (*mountedFile, error) {
	f := &mountedFile{path: path}
	return f, f.replace(content)
}

// add appends to the content, in one step.
func (f *mountedFile) add(content string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text += content + "\n"
	return f.write()
}

// replace replaces the content in one step.
func (f *mountedFile) replace(content string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = content
	return f.write()
}

// write writes the file. The caller must hold mu.
func (f *mountedFile) write() error {
	next := f.path + ".next"
	if err := os.WriteFile(next, []byte(f.text), 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path)
}

// passes waits for a duration, in which an action may happen too often.
func (s *scenario) passes(d time.Duration) {
	s.Helper()
	end := time.Now().Add(d)
	s.Eventually(time.Now).WithTimeout(d + patience).Should(gomega.BeTemporally(">", end))
}
