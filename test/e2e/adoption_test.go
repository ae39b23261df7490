// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestAdoption installs releases by Helm in four Clusters, and has a HelmOp adopt them one after the other. Where
// nothing would change, there is no new Helm revision, and no object of the chart is written. The release that would
// change is left alone and named until the values match. Then a HelmOp that installs once does not upgrade what it
// adopted.
func TestAdoption(t *testing.T) {
	s := newScenario(t)
	const differs = "adopt-3"
	options := []testbed.ClusterOptions{{Name: "host"}}
	names := make([]string, 4)
	for i := range names {
		names[i] = fmt.Sprintf("adopt-%d", i)
		options = append(options, testbed.ClusterOptions{Name: names[i], Host: "host",
			Labels: map[string]string{addonsLabel: "hello"}})
	}
	hosts, versions := map[string]*workload{}, map[string]map[string]string{}
	for _, w := range s.clusters(options...)[1:] {
		hosts[w.name] = w
		h := w.helmUserIn(w.name)
		h.install("hello")
		versions[w.name] = w.objectVersions(w.name)
		s.Expect(versions[w.name]).To(gomega.HaveLen(3))
	}

	helmOp := s.newHelmOp("hello", func(h *addonsv1.HelmOp) {
		h.Spec.Release.Namespace = "{{ .Cluster.metadata.name }}"
		h.Spec.Values = adoptedValues(`{{ if eq .Cluster.metadata.name "` + differs + `" }}other{{ else }}by hand{{ end }}`)
		h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: new(true), Adoption: addonsv1.AdoptionPolicyWhenUnchanged}
		h.Spec.Rollout = &addonsv1.Rollout{}
		atMost(1)(h.Spec.Rollout)
	})
	log := s.watchRollout(helmOp)
	s.create(helmOp)
	untouched := func() {
		s.Helper()
		for _, name := range names {
			hosts[name].eventuallyRevisions(name, "hello", "1 deployed")
			s.Expect(hosts[name].objectVersions(name)).To(gomega.Equal(versions[name]), "objects in %s", name)
		}
	}
	for _, name := range names {
		if name == differs {
			continue
		}
		child := s.child(helmOp, name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason))
		s.eventuallyEvent(child, addonsv1.AdoptedEvent)
		s.Expect(child.Status.History[0].Action).To(gomega.Equal("Adopt"))
		s.Expect(child.Status.Release.Version).To(gomega.Equal("1.0.0"))
	}
	s.eventually(helmOp, failure(differs, addonsv1.AdoptionWouldChangeReason,
		"ConfigMap "+differs+"/hello (changed)", "install.adoption"))
	untouched()
	order, most := log.adoptions(differs)
	s.Expect(order).To(gomega.ConsistOf(names))
	s.Expect(most).To(gomega.Equal(1), "adoptions at the same time")

	// The values match now.
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = adoptedValues("by hand") })
	s.eventually(helmOp, inPhase(2, addonsv1.RolloutPhaseComplete), ready(len(names)))
	untouched()

	// The releases are installed once by now, so other values change nothing.
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce })
	s.eventually(helmOp, inPhase(3, addonsv1.RolloutPhaseComplete), ready(len(names)))
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = adoptedValues("upgraded") })
	s.eventually(helmOp, inPhase(4, addonsv1.RolloutPhaseComplete), ready(len(names)))
	for _, name := range names {
		s.child(helmOp, name, childCondition(addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.InstalledOnceReason))
	}
	untouched()
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyContinuous })
	s.eventually(helmOp, inPhase(5, addonsv1.RolloutPhaseComplete), ready(len(names)))
	for _, name := range names {
		hosts[name].eventuallyRevisions(name, "hello", "1 superseded", "2 deployed")
	}
}

// adoptedValues returns the values of helmUser, with another greeting.
func adoptedValues(greeting string) *apiextensionsv1.JSON {
	return rawJSON(map[string]any{"cluster": "by hand", "podCIDR": "192.168.0.0/16", "greeting": greeting})
}

// objectVersions returns the resource versions of the objects of the chart hello in a namespace.
func (w *workload) objectVersions(namespace string) map[string]string {
	w.scenario.Helper()
	versions := map[string]string{}
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.ServiceAccount{}, &appsv1.DaemonSet{}} {
		w.scenario.must(w.Get(w.scenario.Context(), client.ObjectKey{Namespace: namespace, Name: "hello"}, object))
		versions[fmt.Sprintf("%T", object)] = object.GetResourceVersion()
	}
	return versions
}

// adoptions returns the Clusters of adoptions in their order, and how many were in flight at the same time at most. It
// does not count a Cluster whose release is left alone.
func (l *rolloutLog) adoptions(leftAlone string) (order []string, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	inFlight := map[string]bool{}
	for _, step := range l.steps {
		if step.reason != addonsv1.ReleaseRolloutUpdated {
			continue
		}
		if !slices.Contains(order, step.cluster) {
			order = append(order, step.cluster)
		}
		inFlight[step.cluster] = !step.ready && step.cluster != leftAlone
		maps.DeleteFunc(inFlight, func(_ string, is bool) bool { return !is })
		most = max(most, len(inFlight))
	}
	return order, most
}
