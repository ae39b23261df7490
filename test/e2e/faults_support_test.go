// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// note returns the smallest chart: a ConfigMap with the version and a text. The name of the ConfigMap is a value, so
// that an API server can be made to reject it.
func note(version string) registry.Chart {
	return registry.ChartFiles(map[string]string{
		"Chart.yaml":  fmt.Sprintf("apiVersion: v2\nname: note\ndescription: Contains a text.\nversion: %s\n", version),
		"values.yaml": "name: \"\"\ngreeting: hello\n",
		"templates/note.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Values.name | default .Release.Name }}
  namespace: {{ .Release.Namespace }}
data:
  greeting: {{ .Values.greeting | quote }}
  chartVersion: {{ .Chart.Version | quote }}
`,
	})
}

// ownRegistry starts a registry that fails for this scenario only.
func (s *scenario) ownRegistry() *registry.Registry {
	s.Helper()
	r, err := registry.Start(s.Context(), registry.Options{
		Dir: filepath.Join(suite.dir, "registry-"+s.namespace), Binaries: s.env.Binaries,
	})
	s.must(err)
	s.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			s.Error(err)
		}
	})
	return r
}

// push pushes the chart note.
func (s *scenario) push(r *registry.Registry, repository, version string) {
	s.Helper()
	_, err := r.PushChart(s.Context(), repository, version, note(version))
	s.must(err)
}

// noteFrom makes a HelmOp install the chart note from a registry, in all Clusters, with its own Secrets. It creates the
// Secrets.
func (s *scenario) noteFrom(r *registry.Registry, name, repository string,
	ref addonsv1.ArtifactReference,
) *addonsv1.HelmOp {
	s.Helper()
	credentials, err := r.DockerConfigJSON()
	s.must(err)
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-credentials"},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: credentials},
	})
	s.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-ca"},
		Data:       map[string][]byte{"ca.crt": r.CA()},
	})
	return s.newHelmOp(name, forAll, func(helmOp *addonsv1.HelmOp) {
		helmOp.Spec.Values = nil
		helmOp.Spec.Source = addonsv1.ArtifactSource{
			URL:           "oci://" + r.Host() + "/" + repository,
			Ref:           ref,
			Interval:      metav1.Duration{Duration: shortInterval},
			SecretRef:     &addonsv1.SecretReference{Name: name + "-credentials"},
			CertSecretRef: &addonsv1.SecretReference{Name: name + "-ca"},
		}
	})
}

// secret returns a Secret for update to change.
func (s *scenario) secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// eventuallyEvent waits until there is an Event with this reason, and with a note that matches these regular
// expressions, about an object.
func (s *scenario) eventuallyEvent(about client.Object, reason string, patterns ...string) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		var found []string
		for _, event := range s.eventsAbout(ctx, g, about) {
			found = append(found, event.Reason+": "+event.Note)
		}
		matches := gomega.HavePrefix(reason + ": ")
		for _, pattern := range patterns {
			matches = gomega.And(matches, gomega.MatchRegexp(pattern))
		}
		g.Expect(found).To(gomega.ContainElement(matches), "Events about %s", about.GetName())
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// eventsAbout returns the Events about an object.
func (s *scenario) eventsAbout(ctx context.Context, g gomega.Gomega, about client.Object) []eventsv1.Event {
	list := &eventsv1.EventList{}
	g.Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(gomega.Succeed())
	return slices.DeleteFunc(list.Items, func(event eventsv1.Event) bool {
		return event.Regarding.UID != about.GetUID()
	})
}

// occurrences returns how often an Event with this reason about an object has occurred.
func (s *scenario) occurrences(ctx context.Context, g gomega.Gomega, about client.Object, reason string) int {
	count := 0
	for _, event := range s.eventsAbout(ctx, g, about) {
		switch {
		case event.Reason != reason:
		case event.Series != nil:
			count += int(event.Series.Count)
		default:
			count++
		}
	}
	return count
}

// message checks that the message of a condition contains all of these texts.
func message(conditionType string, texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		for _, text := range texts {
			g.Expect(conditions.GetMessage(helmOp, conditionType)).To(gomega.ContainSubstring(text), conditionType)
		}
	}
}

// failure checks that a HelmOp reports one failure, of this Cluster and with these texts in the message.
func failure(cluster, reason string, texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return failureOf(cluster, []string{reason}, texts...)
}

// failureOf is failure with one of several reasons.
func failureOf(cluster string, reasons []string, texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		g.Expect(helmOp.Status.Failures).To(gomega.HaveLen(1), toJSON(helmOp.Status))
		first := helmOp.Status.Failures[0]
		g.Expect(first.Cluster).To(gomega.Equal(cluster), first.Message)
		g.Expect(first.Reason).To(gomega.BeElementOf(reasons), first.Message)
		for _, text := range texts {
			g.Expect(first.Message).To(gomega.ContainSubstring(text))
		}
	}
}

// setValues replaces the values of a HelmOp.
func (s *scenario) setValues(helmOp *addonsv1.HelmOp, values map[string]any) {
	s.Helper()
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = rawJSON(values) })
}

// nudge triggers a reconciliation of a release, as the next resync does.
func (s *scenario) nudge(helmOp *addonsv1.HelmOp, cluster string) {
	s.Helper()
	child := s.child(helmOp, cluster)
	update(s, child, func(c *addonsv1.HelmOpRelease) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations["helmop.test/nudge"] += "."
	})
}

// each runs parts in parallel and waits for all.
func (s *scenario) each(parts map[string]func(s *scenario)) {
	s.Helper()
	s.Run("each", func(t *testing.T) {
		group := s.in(t)
		for name, do := range parts {
			group.part(name, do)
		}
	})
}
