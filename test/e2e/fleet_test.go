// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/otlp"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

const (
	// fleetSize is the number of Clusters of TestFleet.
	fleetSize = 4

	// fleetResync is the sync period of the fleet's managers. It is short, so that two periods pass soon.
	fleetResync = 5 * time.Second

	// leaseName is the name of the lease of the managers' leader election.
	leaseName = "controller-leader-election-helmop"
)

// fleet is a HelmOp with a release in each of some Clusters, in its own environment.
type fleet struct {
	env       *environment.Environment
	helmOp    *addonsv1.HelmOp
	workloads []*workload
}

// TestFleet counts the requests of an unchanged fleet, and stops, kills and starts its managers. No other test uses its
// environment.
func TestFleet(t *testing.T) {
	begin(t)
	collector := otlp.Start(t)
	env := ownEnvironment(t, environment.Options{
		SyncPeriod: fleetResync, ManagerArgs: []string{"--tracing-endpoint=" + collector.URL, "--enable-page"},
	})
	s := newScenarioIn(t, env)
	f := &fleet{env: env}

	s.step("clusterctl labels all installed objects", func(s *scenario) { testInstalledByClusterctl(s) })
	s.step("pulls a chart once for all Clusters", func(s *scenario) { f.install(s) })
	s.step("checks unchanged releases with one small read for each resync", func(s *scenario) { f.idle(s) })
	s.step("serves metrics to authorized users only", func(s *scenario) { testMetrics(s) })
	s.step("exports a trace for each Cluster", func(s *scenario) { f.traces(s, collector) })
	s.step("serves the page to authorized users only", func(s *scenario) { testPage(s, f.helmOp) })
	s.step("a restarted manager writes nothing", func(s *scenario) { f.restart(s) })
	s.step("another manager takes over from a killed leader", func(s *scenario) { f.failover(s) })
	s.step("a watch filter excludes other HelmOps", func(s *scenario) { f.watchFilter(s) })
	s.step("a manager of one namespace serves only this namespace", func(s *scenario) { f.oneNamespace(s) })
}

// traces checks the traces of the first installation: each Cluster has one, whose root has all other spans as children.
func (f *fleet) traces(s *scenario, collector *otlp.Collector) {
	// The HelmOp has no health.
	steps := []string{"assign", "install", "observe", "pull", "render", "resolve", "revision"}
	s.Eventually(func(g gomega.Gomega) {
		traces, names, roots := map[string]string{}, map[string]map[string]bool{}, map[string]string{}
		for _, span := range collector.Spans() {
			cluster := span.Attributes["helmop.cluster"]
			if names[cluster] == nil {
				names[cluster], traces[cluster] = map[string]bool{}, span.Trace
			}
			names[cluster][span.Name] = true
			g.Expect(span.Trace).To(gomega.Equal(traces[cluster]), "a Cluster has two traces")
			g.Expect(span.Failure).To(gomega.BeEmpty())
			g.Expect(span.Ended).NotTo(gomega.BeTemporally("<", span.Began), span.Name)
			if span.Parent == "" {
				roots[cluster] = span.ID
				g.Expect(span.Name).To(gomega.Equal("revision"))
			}
		}
		g.Expect(names).To(gomega.HaveLen(fleetSize))
		for _, span := range collector.Spans() {
			root := roots[span.Attributes["helmop.cluster"]]
			g.Expect(root).To(gomega.BeElementOf(span.ID, span.Parent), span.Name)
		}
		for cluster := range names {
			g.Expect(slices.Sorted(maps.Keys(names[cluster]))).To(gomega.ContainElements(steps), cluster)
		}
	}).Should(gomega.Succeed())
}

func (f *fleet) install(s *scenario) {
	f.env.Registry.ResetCounts()
	options := make([]testbed.ClusterOptions, fleetSize)
	for i := range options {
		options[i] = testbed.ClusterOptions{Name: fmt.Sprintf("c%d", i), PodCIDRs: []string{fmt.Sprintf("10.%d.0.0/16", i)}}
	}
	for i := range options {
		s.createCluster(options[i])
	}
	// The releases of all Clusters need the chart when their control planes are initialized, some at the same moment.
	f.helmOp = s.newHelmOp("fleet", forAll)
	s.create(f.helmOp)
	for i := range options {
		w := s.workload(options[i].Name)
		child := w.eventuallyReleased(f.helmOp, releaseNamespace, "fleet", 1)
		s.Expect(child.Status.State).To(gomega.Equal("InSync"), "the state of the release in %s", w.name)
		f.workloads = append(f.workloads, w)
	}
	s.eventually(f.helmOp, ready(fleetSize))
	layers := map[string]int{}
	for _, request := range f.env.Registry.Requests() {
		if request.Kind == registry.BlobGet && request.Code == 200 {
			layers[request.Reference]++
		}
	}
	s.Expect(layers).To(gomega.HaveLen(1), "pulled blobs, of %+v", f.env.Registry.Counts())
	for digest, count := range layers {
		s.Expect(count).To(gomega.Equal(1), "pulls of blob %s", digest)
	}
}

// idle counts all requests over two resyncs. It is repeated after a Cluster did not respond to a probe, see restart.
func (f *fleet) idle(s *scenario) {
	for try := 1; ; try++ {
		s.settle()
		since := time.Now()
		others := f.otherRequests(s, since)
		if len(others) == 0 || try == 3 || !f.wasUnreachable(s, since) {
			s.Expect(others).To(gomega.BeEmpty(), "requests of the idle manager")
			return
		}
		s.Logf("a Cluster was unreachable, so %d requests do not count", len(others))
	}
}

// otherRequests waits for two resyncs. It returns the requests since a time that an idle manager must not send.
func (f *fleet) otherRequests(s *scenario, since time.Time) []apiserver.Request {
	s.Helper()
	f.env.Registry.ResetCounts()
	for _, w := range f.in(s) {
		s.Eventually(func(g gomega.Gomega) {
			g.Expect(w.observations(g, since)).To(gomega.BeNumerically(">=", 2), "checks of the release in %s", w.name)
		}).Should(gomega.Succeed())
	}

	s.Expect(f.env.Registry.Requests()).To(gomega.BeEmpty(), "requests to the registry")
	all := f.managementRequests(s, since, apiserver.Writes())
	reads := f.managementRequests(s, since, apiserver.WithVerb("get", "list"))
	all = append(all, slices.DeleteFunc(reads, isRestoreCheck)...)
	for _, w := range f.in(s) {
		checks := w.observations(s, since)
		// Checks continue while the audit logs are read, so the limit is computed after the count. Resyncs are spread by a
		// tenth, and one more fits at the ends.
		elapsed := time.Since(since)
		s.Expect(checks).To(gomega.BeNumerically("<=", int(elapsed/(fleetResync*9/10))+1),
			"checks of the release in %s within %s", w.name, elapsed)
		others, err := w.server.Requests(apiserver.Since(since), ofHelmOp, apiserver.Not(isObservation),
			apiserver.Not(isProbe))
		s.must(err)
		all = append(all, others...)
	}
	return all
}

// restart replaces the manager. A Cluster may not respond to its probes on a full machine. The manager then reports
// that the Cluster is unreachable, and restart is repeated.
func (f *fleet) restart(s *scenario) {
	for try := 1; ; try++ {
		since := f.stopAndStart(s)
		writes := f.managementRequests(s, since, apiserver.Writes())
		if len(writes) == 0 || try == 3 || !f.wasUnreachable(s, since) {
			s.Expect(writes).To(gomega.BeEmpty(), "writes to the management cluster")
			return
		}
		s.Logf("a Cluster was unreachable after the restart, so %d writes do not count", len(writes))
		s.settle()
	}
}

// wasUnreachable reports whether a manager has found a Cluster unreachable since a time.
func (f *fleet) wasUnreachable(s *scenario, since time.Time) bool {
	s.Helper()
	for _, child := range s.children(s.Context(), s, f.helmOp) {
		changed := conditions.GetLastTransitionTime(child, addonsv1.ClusterReachableCondition)
		// The times of conditions have whole seconds.
		if changed != nil && !changed.Time.Before(since.Truncate(time.Second)) {
			return true
		}
	}
	return false
}

// stopAndStart stops the manager gracefully, starts another one, and waits until it has checked all releases twice. It
// returns the time between the two managers.
func (f *fleet) stopAndStart(s *scenario) time.Time {
	s.Helper()
	before := f.storage(s)
	managers := f.env.Managers()
	s.must(managers[len(managers)-1].Stop(s.Context()))
	since := time.Now()
	// The next step kills this manager, and the lease of a killed manager delays its successor.
	_, err := f.env.StartManager(s.Context(), shortLease...)
	s.must(err)
	for _, w := range f.in(s) {
		s.Eventually(func(g gomega.Gomega) {
			g.Expect(w.observations(g, since)).To(gomega.BeNumerically(">=", 2), "checks of the release in %s", w.name)
		}).Should(gomega.Succeed())
	}
	s.eventually(f.helmOp, ready(fleetSize))
	s.Expect(f.storage(s)).To(gomega.Equal(before), "Helm's storage")
	s.Expect(f.managementRequests(s, since, isRestoreCheck)).NotTo(gomega.BeEmpty(), "checks for a restore")
	for _, w := range f.in(s) {
		writes, err := w.server.Requests(apiserver.Since(since), ofHelmOp, apiserver.Writes())
		s.must(err)
		s.Expect(writes).To(gomega.BeEmpty(), "writes to %s", w.name)
	}
	return since
}

// failover kills the leader of two managers and changes the values at once.
func (f *fleet) failover(s *scenario) {
	managers := f.env.Managers()
	leader := managers[len(managers)-1]
	_, err := f.env.StartManager(s.Context())
	s.must(err)
	before := s.leader()
	s.must(leader.Kill())
	s.setGreeting(f.helmOp, "after the failover")
	for _, w := range f.in(s) {
		w.expectGreeting(f.helmOp, 2, "after the failover")
		w.eventuallyRevisions(releaseNamespace, "fleet", "1 superseded", "2 deployed")
	}
	s.Expect(s.leader()).NotTo(gomega.Equal(before))
	s.eventually(f.helmOp, ready(fleetSize))
}

// watchFilter runs a manager that serves only some HelmOps.
func (f *fleet) watchFilter(s *scenario) {
	for _, manager := range f.env.Managers() {
		s.must(manager.Stop(s.Context()))
	}
	_, err := f.env.StartManager(s.Context(), "--watch-filter=blue")
	s.must(err)
	red := s.newHelmOp("red", forAll,
		func(h *addonsv1.HelmOp) { h.Labels = map[string]string{clusterv1.WatchLabel: "red"} })
	none := s.newHelmOp("none", forAll)
	blue := s.newHelmOp("blue", forAll,
		func(h *addonsv1.HelmOp) { h.Labels = map[string]string{clusterv1.WatchLabel: "blue"} })
	for _, helmOp := range []*addonsv1.HelmOp{red, none, blue} {
		s.create(helmOp)
	}
	for _, w := range f.in(s) {
		child := w.eventuallyReleased(blue, releaseNamespace, "blue", 1)
		s.Expect(child.Labels).To(gomega.HaveKeyWithValue(clusterv1.WatchLabel, "blue"))
	}
	s.eventually(blue, ready(fleetSize))
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		for _, helmOp := range []*addonsv1.HelmOp{red, none} {
			g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp)).To(gomega.Succeed())
			g.Expect(helmOp.Finalizers).To(gomega.BeEmpty())
			g.Expect(helmOp.Status.ObservedGeneration).To(gomega.BeEquivalentTo(-1))
			g.Expect(s.children(ctx, g, helmOp)).To(gomega.BeEmpty())
		}
	}).WithContext(s.Context()).Should(gomega.Succeed())
	// Only a manager without the filter can remove the finalizers of all HelmOps.
	managers := f.env.Managers()
	s.must(managers[len(managers)-1].Stop(s.Context()))
	_, err = f.env.StartManager(s.Context())
	s.must(err)
	s.eventually(red, ready(fleetSize))
	// A HelmOp that is given to another manager keeps its releases.
	update(s, blue, func(h *addonsv1.HelmOp) { h.Labels[clusterv1.WatchLabel] = "green" })
	s.child(blue, "c0", func(g gomega.Gomega, child *addonsv1.HelmOpRelease) {
		g.Expect(child.Labels).To(gomega.HaveKeyWithValue(clusterv1.WatchLabel, "green"))
	})
}

// oneNamespace runs a manager of a namespace without HelmOps, then a manager of the scenario's namespace that has no
// rights in others.
func (f *fleet) oneNamespace(s *scenario) {
	stop := func() {
		managers := f.env.Managers()
		s.must(managers[len(managers)-1].Stop(s.Context()))
	}
	stop()
	_, err := f.env.StartManager(s.Context(), "--namespace=default")
	s.must(err)
	helmOp := s.newHelmOp("namespaced", forAll)
	s.create(helmOp)
	s.Consistently(func(g gomega.Gomega, ctx context.Context) {
		g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(helmOp), helmOp)).To(gomega.Succeed())
		g.Expect(helmOp.Finalizers).To(gomega.BeEmpty())
	}).WithContext(s.Context()).Should(gomega.Succeed())
	stop()
	f.narrow(s)
	since := time.Now()
	_, err = f.env.StartManager(s.Context(), "--namespace="+s.namespace)
	s.must(err)
	s.eventually(helmOp, ready(fleetSize))
	for _, w := range f.in(s) {
		w.eventuallyReleased(helmOp, releaseNamespace, "namespaced", 1)
	}
	update(s, helmOp, func(h *addonsv1.HelmOp) { h.Spec.Values = helloValues(greeting("narrow")) })
	s.eventually(helmOp, ready(fleetSize), inPhase(2, addonsv1.RolloutPhaseComplete))
	s.remove(helmOp)
	s.eventuallyGone(helmOp)
	refused, err := f.env.Management.Server.Requests(apiserver.Since(since), apiserver.ByUser(environment.User),
		func(r apiserver.Request) bool { return r.Code == http.StatusForbidden })
	s.must(err)
	s.Expect(refused).To(gomega.BeEmpty())
}

// narrow replaces the manager's permissions with those of config/one-namespace, in the namespace of the scenario.
func (f *fleet) narrow(s *scenario) {
	s.Helper()
	built, err := f.env.Management.Kubectl(s.Context(), "kustomize", filepath.Join(f.env.Root(), "config/one-namespace"))
	s.must(err)
	file := filepath.Join(s.TempDir(), "components.yaml")
	s.must(os.WriteFile(file, []byte(built.Stdout), 0o600))
	made, err := testbed.Run(s.Context(), f.env.Binaries.Path(binaries.Clusterctl),
		[]string{"HELMOP_WATCH_NAMESPACE=" + s.namespace, "XDG_CONFIG_HOME=" + s.TempDir(),
			"CLUSTERCTL_DISABLE_VERSIONCHECK=true"}, "generate", "yaml", "--from", file)
	s.must(err)
	kept := map[string]bool{}
	for _, obj := range s.decode([]byte(made.Stdout)) {
		if obj.GroupVersionKind().Group != rbacv1.GroupName {
			continue
		}
		kept[obj.GetKind()+obj.GetName()] = true
		s.must(s.client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("e2e"),
			client.ForceOwnership))
	}
	bindings := &rbacv1.ClusterRoleBindingList{}
	s.must(s.client.List(s.Context(), bindings, client.MatchingLabels{clusterv1.ProviderNameLabel: provider}))
	for i := range bindings.Items {
		if !kept["ClusterRoleBinding"+bindings.Items[i].Name] {
			s.must(s.client.Delete(s.Context(), &bindings.Items[i]))
		}
	}
	// The API server observes roles and bindings with a watch, so changes apply after a moment.
	s.Eventually(func(g gomega.Gomega) {
		for namespace, want := range map[string]bool{s.namespace: true, "default": false} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: environment.User, ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: "list", Resource: "secrets"}}}
			g.Expect(s.client.Create(s.Context(), review)).To(gomega.Succeed())
			g.Expect(review.Status.Allowed).To(gomega.Equal(want), "Secrets of namespace %s", namespace)
		}
	}).Should(gomega.Succeed())
}

// settle waits until the manager has sent no request to the management cluster for a while.
func (s *scenario) settle() {
	s.Helper()
	start := time.Now()
	s.Eventually(func(g gomega.Gomega) {
		since := time.Now().Add(-quiet)
		g.Expect(since).To(gomega.BeTemporally(">", start))
		requests, err := s.env.Management.Server.Requests(apiserver.Since(since), apiserver.ByUser(environment.User),
			apiserver.Not(inOwnNamespace), apiserver.Not(apiserver.WithVerb("watch")))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(requests).To(gomega.BeEmpty())
	}).Should(gomega.Succeed())
}

// managementRequests returns the manager's requests to the management cluster, except the requests of the leader
// election: the lease, and an Event when the leader changes.
func (f *fleet) managementRequests(s *scenario, since time.Time, filter apiserver.Filter) []apiserver.Request {
	s.Helper()
	requests, err := f.env.Management.Server.Requests(apiserver.Since(since), apiserver.ByUser(environment.User), filter,
		apiserver.Not(inOwnNamespace))
	s.must(err)
	return requests
}

// storage returns Helm's storage in all Clusters.
func (f *fleet) storage(s *scenario) map[string]map[string]string {
	s.Helper()
	all := map[string]map[string]string{}
	for _, w := range f.workloads {
		versions, err := w.storage(s.Context())
		s.must(err)
		all[w.name] = versions
	}
	return all
}

// in returns the fleet's clusters for a step of the scenario.
func (f *fleet) in(s *scenario) []*workload {
	workloads := make([]*workload, 0, len(f.workloads))
	for _, w := range f.workloads {
		workloads = append(workloads, w.in(s))
	}
	return workloads
}

// observations counts how often HelmOp checked its release in the cluster.
func (w *workload) observations(g gomega.Gomega, since time.Time) int {
	requests, err := w.server.Requests(apiserver.Since(since), ofHelmOp, isObservation)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	return len(requests)
}

// ofHelmOp selects the manager's requests to a workload cluster. The manager uses the cluster administrator's
// credentials, as Cluster API and the tests do.
func ofHelmOp(r apiserver.Request) bool {
	return r.UserAgent == "helmop" || strings.HasPrefix(r.UserAgent, "helmop-manager/")
}

func inOwnNamespace(r apiserver.Request) bool { return r.Namespace == environment.Namespace }

// isObservation selects the small read of a check: the metadata of the Secrets of one release.
func isObservation(r apiserver.Request) bool {
	return r.Verb == "list" && r.Resource == "secrets" && r.Namespace == releaseNamespace && r.Code == 200
}

// isRestoreCheck selects the list of one HelmOp by which the manager notices a restore of the management cluster.
func isRestoreCheck(r apiserver.Request) bool {
	return r.Verb == "list" && r.Resource == "helmops" && strings.HasSuffix(r.URI, "/helmops?limit=1")
}

// isProbe selects the health check of the connection, which all releases of a Cluster share.
func isProbe(r apiserver.Request) bool {
	return r.Verb == "get" && r.Resource == "" && r.URI == "/version"
}
