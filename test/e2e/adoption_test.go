// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"helm.sh/helm/v3/pkg/chart/loader"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

// TestAdoption installs releases with Helm in four Clusters. Then a HelmOp adopts them one after the other. If an
// adoption would change nothing, there is no new Helm revision, and no object of the chart is written. A release that
// would change is not adopted until the values match, and the status names it. At the end, a HelmOp that installs once
// does not upgrade the release that it adopted.
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
	adoptions := log.adoptions(differs)
	s.Expect(adoptions.order).To(gomega.ConsistOf(names))
	s.Expect(adoptions.most).To(gomega.Equal(1), "adoptions at the same time")

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

// adoptions returns the course of the adoptions by the first HelmOp revision. A Cluster whose release is not adopted
// does not count as in progress. waves names the tiers in order; Clusters of other tiers come last.
func (l *rolloutLog) adoptions(leftAlone string, waves ...string) course {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ready, inFlight := course{}, map[string]bool{}, map[string]bool{}
	for _, step := range l.steps {
		if step.reason != addonsv1.ReleaseRolloutUpdated || step.revision != 1 {
			continue
		}
		if !slices.Contains(c.order, step.cluster) {
			c.order = append(c.order, step.cluster)
			c.early = append(c.early, tooEarly(step.cluster, ready, waves)...)
		}
		ready[step.cluster] = step.ready
		inFlight[step.cluster] = !step.ready && step.cluster != leftAlone
		maps.DeleteFunc(inFlight, func(_ string, is bool) bool { return !is })
		c.most = max(c.most, len(inFlight))
	}
	return c
}

// TestAdoptionIsPaced installs releases by Helm in twelve Clusters. A HelmOp whose values change the releases adopts
// them in waves.
func TestAdoptionIsPaced(t *testing.T) {
	s, fleet := newRollouts(t)
	s.part("limits", func(s *scenario) { fleet.adoptsInWaves(s, "limits") })
	s.part("budget", func(s *scenario) { fleet.stopsAdoptions(s, "budget") })
}

// adoptsInWaves never changes more releases at the same time than the limits permit.
func (t *rolloutClusters) adoptsInWaves(s *scenario, name string) {
	t.installNotes(s, name)
	rollout := canaryFirst(atMost(2))
	rollout.Waves = append(rollout.Waves, wave("early"))
	q := t.adopt(s, name, rollout, "two")
	q.eventually(inPhase(1, addonsv1.RolloutPhaseComplete), ready(q.count), progress(12, 12, 0))
	q.eventuallyText("two", q.in(), "1 superseded", "2 deployed")
	adoptions := q.log.adoptions("", "canary", "early")
	s.Expect(adoptions.order).To(gomega.ConsistOf(q.in()))
	s.Expect(adoptions.most).To(gomega.BeNumerically("<=", 2), "adoptions at the same time")
	s.Expect(adoptions.early).To(gomega.BeEmpty(), "adoptions before the wave was complete")
}

// stopsAdoptions has a canary that fails. The releases of the other waves do not change until the values are corrected.
func (t *rolloutClusters) stopsAdoptions(s *scenario, name string) {
	t.installNotes(s, name)
	since := time.Now()
	q := t.adopt(s, name, canaryFirst(atMost(1)),
		`{{ if eq .Cluster.metadata.name "canary-0" }}bad{{ else }}two{{ end }}`)
	q.eventually(inPhase(1, addonsv1.RolloutPhasePaused),
		condition(addonsv1.RollingOutCondition, metav1.ConditionTrue, addonsv1.RolloutPausedReason),
		func(g gomega.Gomega, h *addonsv1.HelmOp) {
			g.Expect(h.Status.Rollout.Failed).To(gomega.BeEquivalentTo(1))
		})
	q.untouched(since, q.in("early", "prod"))
	q.eventuallyText("one", q.in("early", "prod"), "1 deployed")
	s.Expect(q.in("canary")).To(gomega.ContainElements(q.log.adoptions("").order))

	q.greet("three")
	q.eventually(inPhase(2, addonsv1.RolloutPhaseComplete), ready(q.count))
	q.eventuallyText("three", q.in("early", "prod"), "1 superseded", "2 deployed")
}

// installNotes runs "helm install" for the release of a HelmOp in each Cluster.
func (t *rolloutClusters) installNotes(s *scenario, name string) {
	s.Helper()
	archive, err := note("1.0.0")()
	s.must(err)
	for _, cluster := range t.clusters {
		chart, err := loader.LoadArchive(bytes.NewReader(archive))
		s.must(err)
		t.hosts[cluster].in(s).helmUserIn(name+"-"+cluster).installChart(name, chart, greeting("one"))
	}
}

// adopt creates a HelmOp that adopts the releases of installNotes, with another text.
func (t *rolloutClusters) adopt(s *scenario, name string, rollout *addonsv1.Rollout, text string) *rolloutHelmOp {
	s.Helper()
	return t.createRolloutHelmOp(s, name, rollout, func(h *addonsv1.HelmOp) {
		h.Spec.Values = rawJSON(greeting(text))
		h.Spec.Install = &addonsv1.InstallOptions{TakeOwnership: new(true), Adoption: addonsv1.AdoptionPolicyUpgrade}
	})
}
