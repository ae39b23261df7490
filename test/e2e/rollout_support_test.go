// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

const (
	// poolLabel on a Cluster names the scenario parts that may select the Cluster: "all", or one part.
	poolLabel = "pool"

	// tierLabel on a Cluster is its wave.
	tierLabel = "tier"
)

// noteCheck checks the health of the chart note by its text: "bad" at the beginning means failed, "slow" means in
// progress.
var noteCheck = addonsv1.HealthCheck{
	APIVersion: "v1", Kind: "ConfigMap", Current: "!self.data.greeting.startsWith('slow')",
	Failed: "self.data.greeting.startsWith('bad')",
}

// tiers are the numbers of Clusters by tier. No wave selects the tier prod.
var tiers = map[string]int{"canary": 2, "early": 4, "prod": 6}

// rolloutClusters are the Clusters for rollouts: twelve Clusters on two API servers. The health of a release follows
// the text of its ConfigMap, because no controller runs in the workload clusters.
type rolloutClusters struct {
	hosts    map[string]*workload // By Cluster.
	clusters []string
}

// newRolloutClusters creates the Clusters and waits for their control planes.
func (s *scenario) newRolloutClusters() *rolloutClusters {
	s.Helper()
	t := &rolloutClusters{hosts: map[string]*workload{}}
	options := []testbed.ClusterOptions{{Name: "host-0"}, {Name: "host-1"}}
	for tier, n := range tiers {
		for i := range n {
			name := fmt.Sprintf("%s-%d", tier, i)
			t.clusters = append(t.clusters, name)
			// Canaries have their own API server.
			host := "host-1"
			if tier == "canary" {
				host = "host-0"
			}
			options = append(options, testbed.ClusterOptions{Name: name, Host: host,
				Labels: map[string]string{poolLabel: "all", tierLabel: tier}})
		}
	}
	workloads := map[string]*workload{}
	for _, w := range s.clusters(options...) {
		workloads[w.name] = w
	}
	for _, name := range t.clusters {
		t.hosts[name] = workloads[name]
	}
	return t
}

// rolloutHelmOp is a HelmOp with releases in rolloutClusters. Each release has its own namespace, named after HelmOp
// and Cluster.
type rolloutHelmOp struct {
	*rolloutClusters
	s      *scenario
	helmOp *addonsv1.HelmOp
	log    *rolloutLog
	count  int // of selected Clusters
}

// newRolloutHelmOp creates a HelmOp and waits until its first revision is rolled out completely.
func (t *rolloutClusters) newRolloutHelmOp(
	s *scenario, name string, rollout *addonsv1.Rollout, change ...func(*addonsv1.HelmOp),
) *rolloutHelmOp {
	s.Helper()
	q := t.createRolloutHelmOp(s, name, rollout, change...)
	q.eventually(inPhase(1, addonsv1.RolloutPhaseComplete), ready(q.count))
	return q
}

// createRolloutHelmOp creates a HelmOp and watches its releases.
func (t *rolloutClusters) createRolloutHelmOp(
	s *scenario, name string, rollout *addonsv1.Rollout, change ...func(*addonsv1.HelmOp),
) *rolloutHelmOp {
	s.Helper()
	q := &rolloutHelmOp{rolloutClusters: t, s: s, count: len(t.clusters)}
	q.helmOp = s.newHelmOp(name, func(h *addonsv1.HelmOp) {
		h.Spec.ClusterSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: poolLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{"all", name}},
		}}
		h.Spec.Source = s.env.Source("charts/note", addonsv1.ArtifactReference{Tag: "1.0.0"})
		h.Spec.Release = addonsv1.ReleaseTemplate{Namespace: name + "-{{ .Cluster.metadata.name }}"}
		h.Spec.Values = rawJSON(greeting("one"))
		h.Spec.Rollout = rollout
		h.Spec.Health = &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{noteCheck}}
	})
	for _, c := range change {
		c(q.helmOp)
	}
	q.log = s.watchRollout(q.helmOp)
	s.create(q.helmOp)
	return q
}

// canaryFirst returns a rollout with a wave of canaries.
func canaryFirst(change ...func(*addonsv1.Rollout)) *addonsv1.Rollout {
	rollout := &addonsv1.Rollout{Waves: []addonsv1.Wave{wave("canary")}}
	for _, c := range change {
		c(rollout)
	}
	return rollout
}

func wave(tier string) addonsv1.Wave {
	return addonsv1.Wave{Name: tier,
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{tierLabel: tier}}}
}

func manually(rollout *addonsv1.Rollout) { rollout.Waves[0].Promotion = addonsv1.WavePromotionManual }

func atMost(n int) func(*addonsv1.Rollout) {
	return func(rollout *addonsv1.Rollout) {
		rollout.MaxUnavailable = new(intstr.IntOrString)
		*rollout.MaxUnavailable = intstr.FromInt(n)
	}
}

// greet changes the values of the releases, see noteCheck.
func (q *rolloutHelmOp) greet(text string) {
	q.s.Helper()
	q.s.setValues(q.helmOp, greeting(text))
}

// annotate sets an annotation of the HelmOp.
func (q *rolloutHelmOp) annotate(key, value string) {
	q.s.Helper()
	update(q.s, q.helmOp, func(h *addonsv1.HelmOp) {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[key] = value
	})
}

func (q *rolloutHelmOp) eventually(checks ...func(gomega.Gomega, *addonsv1.HelmOp)) *addonsv1.HelmOp {
	q.s.Helper()
	return q.s.eventually(q.helmOp, checks...)
}

// namespace returns the namespace of the release in a Cluster.
func (q *rolloutHelmOp) namespace(cluster string) string { return q.helmOp.Name + "-" + cluster }

// eventuallyText waits until the releases in these Clusters have this text, with exactly these Helm revisions.
func (q *rolloutHelmOp) eventuallyText(text string, clusters []string, revisions ...string) {
	q.s.Helper()
	for _, name := range clusters {
		w := q.hosts[name].in(q.s)
		w.eventuallyHello(q.namespace(name), q.helmOp.Name, map[string]string{"greeting": text})
		if len(revisions) > 0 {
			w.eventuallyRevisions(q.namespace(name), q.helmOp.Name, revisions...)
		}
	}
}

// untouched fails if requests wrote to the namespaces of the releases of some Clusters after the time since, or if such
// requests follow soon.
func (q *rolloutHelmOp) untouched(since time.Time, clusters []string) {
	q.s.Helper()
	q.s.Consistently(func(g gomega.Gomega) {
		for _, name := range clusters {
			writes, err := q.hosts[name].server.Requests(apiserver.Since(since), apiserver.Writes(),
				func(r apiserver.Request) bool { return r.Namespace == q.namespace(name) })
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(writes).To(gomega.BeEmpty(), "writes to %s", name)
		}
	}).Should(gomega.Succeed())
}

// in returns the Clusters of some tiers, or all Clusters if no tier is named.
func (t *rolloutClusters) in(names ...string) []string {
	if len(names) == 0 {
		return t.clusters
	}
	var clusters []string
	for _, name := range t.clusters {
		for _, tier := range names {
			if strings.HasPrefix(name, tier+"-") {
				clusters = append(clusters, name)
			}
		}
	}
	return clusters
}

// inPhase checks the number and the phase of the newest HelmOp revision.
func inPhase(revision int64, phase addonsv1.RolloutPhase) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout).NotTo(gomega.BeNil())
		g.Expect(h.Status.Rollout.Revision).To(gomega.Equal(revision), toJSON(h.Status.Rollout))
		g.Expect(h.Status.Rollout.Phase).To(gomega.Equal(phase), toJSON(h.Status.Rollout))
	}
}

// progress checks the counts in the status.
func progress(updated, done, failed int32) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout).NotTo(gomega.BeNil())
		r := h.Status.Rollout
		g.Expect([]int32{r.Updated, r.Done, r.Failed}).To(gomega.Equal([]int32{updated, done, failed}), toJSON(r))
	}
}

// waitsFor checks the status field waitingFor of a rollout.
func waitsFor(texts ...string) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, h *addonsv1.HelmOp) {
		g.Expect(h.Status.Rollout).NotTo(gomega.BeNil())
		for _, text := range texts {
			g.Expect(h.Status.Rollout.WaitingFor).To(gomega.ContainSubstring(text))
		}
	}
}

// rolloutLog records all changes of the releases of a HelmOp, in order.
type rolloutLog struct {
	mu    sync.Mutex
	steps []rolloutStep
}

// rolloutStep is one change of a release.
type rolloutStep struct {
	cluster  string
	revision int64
	reason   addonsv1.ReleaseRolloutReason
	// ready is true if the release is Ready at its newest generation, unreachable if its Cluster does not answer.
	ready, unreachable bool
}

// watchRollout starts to watch the releases of a HelmOp.
func (s *scenario) watchRollout(helmOp *addonsv1.HelmOp) *rolloutLog {
	s.Helper()
	log := &rolloutLog{}
	s.follow(&addonsv1.HelmOpReleaseList{}, log.add, client.MatchingLabels{addonsv1.HelmOpNameLabel: helmOp.Name})
	return log
}

func (l *rolloutLog) add(event watch.Event) {
	child, ok := event.Object.(*addonsv1.HelmOpRelease)
	if !ok || child.Spec.Rollout == nil || event.Type == watch.Deleted {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, rolloutStep{
		cluster: child.Spec.ClusterRef.Name, revision: child.Spec.Rollout.Revision, reason: child.Spec.Rollout.Reason,
		ready:       conditions.IsTrue(child, addonsv1.ReadyCondition) && child.Status.ObservedGeneration == child.Generation,
		unreachable: conditions.GetReason(child, addonsv1.ReadyCondition) == addonsv1.ClusterUnreachableReason,
	})
}

// course summarizes the rollout of a HelmOp revision.
type course struct {
	// order has the Clusters in the order of their assignments.
	order []string
	// most is the largest number of Clusters that were in progress at the same time.
	most int
	// twice names Clusters to which the revision was assigned again after another revision.
	twice []string
	// early names Clusters with an assignment before all Clusters of an earlier tier were ready.
	early []string
}

// of returns the course of a revision. order names the tiers in order; Clusters of other tiers come last.
func (l *rolloutLog) of(revision int64, order ...string) course {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := course{}
	now, assigned, ready, inProgress := map[string]int64{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, step := range l.steps {
		if step.revision == revision && now[step.cluster] != revision && step.reason == addonsv1.ReleaseRolloutUpdated {
			if assigned[step.cluster] {
				c.twice = append(c.twice, step.cluster)
			}
			c.order, assigned[step.cluster] = append(c.order, step.cluster), true
			c.early = append(c.early, tooEarly(step.cluster, ready, order)...)
		}
		if step.unreachable && now[step.cluster] == step.revision {
			// The state is kept: a manager that has just started may report ClusterUnreachable at first, on a busy machine.
			continue
		}
		now[step.cluster] = step.revision
		ready[step.cluster] = step.revision == revision && step.ready
		delete(inProgress, step.cluster)
		if step.revision == revision && !step.ready {
			inProgress[step.cluster] = true
		}
		c.most = max(c.most, len(inProgress))
	}
	return c
}

// tooEarly returns a Cluster with its predecessor, if a Cluster of an earlier tier is not ready.
func tooEarly(cluster string, ready map[string]bool, order []string) []string {
	for _, tier := range order {
		if strings.HasPrefix(cluster, tier+"-") {
			return nil
		}
		for i := range tiers[tier] {
			if before := fmt.Sprintf("%s-%d", tier, i); !ready[before] {
				return []string{cluster + " before " + before}
			}
		}
	}
	return nil
}

// assigned returns the Clusters to which a revision was ever assigned.
func (l *rolloutLog) assigned(revision int64) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	var clusters []string
	for _, step := range l.steps {
		if step.revision == revision && !seen[step.cluster] {
			seen[step.cluster] = true
			clusters = append(clusters, step.cluster)
		}
	}
	return clusters
}

// newRollouts starts a scenario with rolloutClusters.
func newRollouts(t *testing.T) (*scenario, *rolloutClusters) {
	t.Helper()
	s := newScenario(t)
	s.push(s.env.Registry, "charts/note", "1.0.0")
	return s, s.newRolloutClusters()
}

// ownRollouts starts a scenario in its own environment, whose managers are killed and started.
func ownRollouts(t *testing.T) (*scenario, *rolloutClusters) {
	t.Helper()
	begin(t)
	// The tests delete the lease of a killed manager. With a short lease, a busy machine would end managers that no test
	// kills.
	s := newScenarioIn(t, ownEnvironment(t, environment.Options{}))
	s.push(s.env.Registry, "charts/note", "1.0.0")
	return s, s.newRolloutClusters()
}
