// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
)

const (
	// patience is the timeout for an expected state. On an idle machine, a wait takes a second or two. On a busy machine
	// with two cores that also starts API servers, it takes much longer.
	patience = 4 * time.Minute

	// poll is the time between two checks of a wait.
	poll = 300 * time.Millisecond

	// quiet is how long a state must not change. A wrong change happens within a second.
	quiet = 4 * time.Second
)

// releaseNamespace is the namespace of the releases of newHelmOp.
const releaseNamespace = "hello-system"

// addonsLabel is the label by which newHelmOp selects Clusters. The value is the name of the HelmOp.
const addonsLabel = "addons"

// scenario is a test in its own namespace.
type scenario struct {
	*testing.T
	gomega.Gomega

	env       *environment.Environment
	client    client.Client
	namespace string
}

// newScenario starts a scenario in the shared environment, in parallel to others.
func newScenario(t *testing.T) *scenario {
	t.Helper()
	t.Parallel()
	// Tests with their own environment take longest, and begin while the shared environment starts.
	env, err := suite.shared()
	if err != nil {
		t.Fatal(err)
	}
	occupy(t, suite.scenarios)
	return newScenarioIn(t, env)
}

// newScenarioIn starts a scenario in an environment: a namespace with access to the registry. At the end of the
// scenario, all objects of the namespace are deleted, and none may be left.
func newScenarioIn(t *testing.T, env *environment.Environment) *scenario {
	t.Helper()
	s := &scenario{T: t, Gomega: newGomega(t), env: env, client: env.Client}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: strings.ToLower(strings.TrimPrefix(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()), "Test")) +
			"-",
	}}
	s.must(s.client.Create(s.Context(), namespace))
	s.namespace = namespace.Name
	s.must(env.CreateRegistrySecrets(s.Context(), s.namespace))
	t.Cleanup(func() {
		if t.Failed() {
			s.dump()
		}
		s.empty()
	})
	return s
}

func newGomega(t *testing.T) gomega.Gomega {
	g := gomega.NewWithT(t)
	// Without this call, a wait with a context would end only with the context.
	g.EnforceDefaultTimeoutsWhenUsingContexts()
	g.SetDefaultEventuallyTimeout(patience)
	g.SetDefaultEventuallyPollingInterval(poll)
	g.SetDefaultConsistentlyDuration(quiet)
	g.SetDefaultConsistentlyPollingInterval(poll)
	return g
}

// step runs a part of a scenario that depends on the parts before. If the part fails, the scenario ends.
func (s *scenario) step(name string, do func(s *scenario)) {
	s.Helper()
	if !s.Run(name, func(t *testing.T) { do(s.in(t)) }) {
		s.FailNow()
	}
}

// part runs an independent part of a scenario, in parallel to others. It does not wait for the part.
func (s *scenario) part(name string, do func(s *scenario)) {
	s.Run(name, func(t *testing.T) {
		t.Parallel()
		occupy(t, suite.parts)
		part := s.in(t)
		t.Cleanup(func() {
			if t.Failed() {
				part.dump()
			}
		})
		do(part)
	})
}

func (s *scenario) in(t *testing.T) *scenario {
	return &scenario{T: t, Gomega: newGomega(t), env: s.env, client: s.client, namespace: s.namespace}
}

func (s *scenario) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// key returns the key of an object of the scenario.
func (s *scenario) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: name}
}

// clusters creates Clusters in parallel and returns when their control planes are initialized.
func (s *scenario) clusters(options ...testbed.ClusterOptions) []*workload {
	s.Helper()
	for i := range options {
		s.createCluster(options[i])
	}
	workloads := make([]*workload, 0, len(options))
	for i := range options {
		workloads = append(workloads, s.workload(options[i].Name))
	}
	return workloads
}

func (s *scenario) createCluster(options testbed.ClusterOptions) {
	s.Helper()
	options.Namespace = s.namespace
	_, err := s.env.Management.CreateCluster(s.Context(), options)
	s.must(err)
}

// cluster reads a Cluster.
func (s *scenario) cluster(name string) *clusterv1.Cluster {
	s.Helper()
	cluster := &clusterv1.Cluster{}
	s.must(s.client.Get(s.Context(), s.key(name), cluster))
	return cluster
}

// newHelmOp returns a HelmOp with the chart hello for the Clusters with its name in the label addons. It does not
// create the HelmOp.
func (s *scenario) newHelmOp(name string, change ...func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	helmOp := &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{addonsLabel: name}},
			Source:          s.env.Source("charts/"+environment.ChartHello, addonsv1.ArtifactReference{Tag: "1.0.0"}),
			Release:         addonsv1.ReleaseTemplate{Namespace: releaseNamespace},
			Values:          helloValues(nil),
			ReleaseOptions:  addonsv1.ReleaseOptions{Health: withoutHealth()},
		},
	}
	for _, c := range change {
		c(helmOp)
	}
	return helmOp
}

// withoutHealth is for clusters in which no controller runs: releases there never become healthy.
func withoutHealth() *addonsv1.HealthOptions {
	return &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled}
}

// forAll selects all Clusters of the namespace.
func forAll(helmOp *addonsv1.HelmOp) { helmOp.Spec.ClusterSelector = &metav1.LabelSelector{} }

// helloValues returns the required values of the chart hello, with the values in more added.
func helloValues(more map[string]any) *apiextensionsv1.JSON {
	values := map[string]any{
		"cluster": "{{ .Cluster.metadata.name }}",
		"podCIDR": "{{ index .Cluster.spec.clusterNetwork.pods.cidrBlocks 0 }}",
	}
	for key, value := range more {
		values[key] = value
	}
	return rawJSON(values)
}

func rawJSON(values map[string]any) *apiextensionsv1.JSON {
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err) // Values of tests are literals.
	}
	return &apiextensionsv1.JSON{Raw: raw}
}

// create creates an object.
func (s *scenario) create(obj client.Object) {
	s.Helper()
	s.must(s.client.Create(s.Context(), obj))
}

// update changes the current state of an object and writes it. obj is the result.
func update[T client.Object](s *scenario, obj T, change func(T)) {
	s.Helper()
	// The manager writes often, and on a busy machine much time passes between the read and the write.
	backoff := wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.3, Jitter: 0.5, Steps: 20}
	s.must(retry.RetryOnConflict(backoff, func() error {
		if err := s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return s.client.Update(s.Context(), obj)
	}))
}

// label sets a label of a Cluster, or removes it if the value is empty.
func (s *scenario) label(cluster, key, value string) {
	s.Helper()
	s.labels(cluster, map[string]string{key: value})
}

// labels sets or removes several labels at once.
func (s *scenario) labels(cluster string, labels map[string]string) {
	s.Helper()
	update(s, s.cluster(cluster), func(c *clusterv1.Cluster) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		for key, value := range labels {
			c.Labels[key] = value
			if value == "" {
				delete(c.Labels, key)
			}
		}
	})
}

// pause pauses a Cluster, or resumes it.
func (s *scenario) pause(cluster string, paused bool) {
	s.Helper()
	update(s, s.cluster(cluster), func(c *clusterv1.Cluster) { c.Spec.Paused = &paused })
}

// remove deletes an object and does not wait.
func (s *scenario) remove(obj client.Object) {
	s.Helper()
	s.must(client.IgnoreNotFound(s.client.Delete(s.Context(), obj)))
}

// eventuallyGone waits until an object does not exist any more.
func (s *scenario) eventuallyGone(obj client.Object) {
	s.Helper()
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
		g.Expect(client.IgnoreNotFound(err)).NotTo(gomega.HaveOccurred())
		g.Expect(err).To(gomega.HaveOccurred(), "%s still exists: %s", obj.GetName(), toJSON(obj))
	}).WithContext(s.Context()).Should(gomega.Succeed())
}

// eventually waits until all checks of a HelmOp pass, and returns the HelmOp.
func (s *scenario) eventually(helmOp *addonsv1.HelmOp,
	checks ...func(gomega.Gomega, *addonsv1.HelmOp),
) *addonsv1.HelmOp {
	s.Helper()
	current := &addonsv1.HelmOp{}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		*current = addonsv1.HelmOp{}
		g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(helmOp), current)).To(gomega.Succeed())
		g.Expect(current.Status.ObservedGeneration).To(gomega.Equal(current.Generation), "observedGeneration")
		for _, check := range checks {
			check(g, current)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return current
}

// ready checks that a HelmOp is Ready with this number of Clusters, all up to date.
func ready(clusters int) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		g.Expect(conditions.IsTrue(helmOp, addonsv1.ReadyCondition)).To(gomega.BeTrue(), "Ready: %s", toJSON(helmOp.Status))
		g.Expect(helmOp.Status.Clusters).To(gomega.HaveValue(gomega.Equal(addonsv1.ClusterCounts{
			Selected: int32(clusters), UpToDate: int32(clusters), Ready: int32(clusters),
		})))
		g.Expect(helmOp.Status.Failures).To(gomega.BeEmpty())
	}
}

// condition checks status and reason of a condition of a HelmOp.
func condition(conditionType string, status metav1.ConditionStatus,
	reason string,
) func(gomega.Gomega, *addonsv1.HelmOp) {
	return func(g gomega.Gomega, helmOp *addonsv1.HelmOp) {
		expectCondition(g, helmOp, conditionType, status, reason)
	}
}

func expectCondition(g gomega.Gomega, obj conditions.Getter, conditionType string, status metav1.ConditionStatus,
	reason string,
) {
	c := conditions.Get(obj, conditionType)
	g.Expect(c).NotTo(gomega.BeNil(), "condition %s of %s", conditionType, toJSON(obj.GetConditions()))
	g.Expect([]string{string(c.Status), c.Reason}).To(gomega.Equal([]string{string(status), reason}),
		"condition %s: %s", conditionType, c.Message)
}

// leader waits until a manager is the leader, and returns its identity. Each start of a manager has another identity.
func (s *scenario) leader() string {
	s.Helper()
	lease := &coordinationv1.Lease{}
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.client.Get(ctx, client.ObjectKey{Namespace: environment.Namespace, Name: leaseName},
			lease)).To(gomega.Succeed())
		g.Expect(lease.Spec.HolderIdentity).To(gomega.HaveValue(gomega.Not(gomega.BeEmpty())))
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return *lease.Spec.HolderIdentity
}

// children returns the HelmOpReleases of a HelmOp by the names of their Clusters.
func (s *scenario) children(ctx context.Context, g gomega.Gomega,
	helmOp *addonsv1.HelmOp,
) map[string]*addonsv1.HelmOpRelease {
	list := &addonsv1.HelmOpReleaseList{}
	g.Expect(s.client.List(ctx, list, client.InNamespace(helmOp.Namespace),
		client.MatchingLabels{addonsv1.HelmOpNameLabel: helmOp.Name})).To(gomega.Succeed())
	children := map[string]*addonsv1.HelmOpRelease{}
	for i := range list.Items {
		children[list.Items[i].Spec.ClusterRef.Name] = &list.Items[i]
	}
	return children
}

// child waits until all checks of the HelmOpRelease of a HelmOp for a Cluster pass, and returns it.
func (s *scenario) child(helmOp *addonsv1.HelmOp, cluster string,
	checks ...func(gomega.Gomega, *addonsv1.HelmOpRelease),
) *addonsv1.HelmOpRelease {
	s.Helper()
	var child *addonsv1.HelmOpRelease
	s.Eventually(func(g gomega.Gomega, ctx context.Context) {
		child = s.children(ctx, g, helmOp)[cluster]
		g.Expect(child).NotTo(gomega.BeNil(), "no HelmOpRelease of %s for %s", helmOp.Name, cluster)
		for _, check := range checks {
			check(g, child)
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
	return child
}

// childCondition checks status and reason of a condition of a HelmOpRelease.
func childCondition(conditionType string, status metav1.ConditionStatus,
	reason string,
) func(gomega.Gomega, *addonsv1.HelmOpRelease) {
	return func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		expectCondition(g, child, conditionType, status, reason)
	}
}

func toJSON(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
