// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmop"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest/suite"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server for the tests in this file. One controller of HelmOps serves all their namespaces.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(sharedServer.Run(m))
}

var shared struct {
	once     sync.Once
	client   client.Client
	registry *registry
	err      error
}

// registry resolves each tag to the digest that a test sets.
type registry struct {
	mu      sync.Mutex
	digests map[string]string
}

func (r *registry) set(tag, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.digests[tag] = digest
}

func (r *registry) Resolve(_ context.Context, from oci.Source) (oci.Artifact, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	digest, ok := r.digests[from.Ref.Tag]
	if !ok {
		return oci.Artifact{}, &ocierr.Error{Kind: ocierr.ErrNotFound, Op: "resolve", Subject: from.URL,
			Detail: "the tag does not exist"}
	}
	return oci.Artifact{
		URL: from.URL, Tag: from.Ref.Tag, Digest: digest, MediaType: bundle.ChartConfigMediaType,
		Layers: []oci.Layer{{MediaType: bundle.ChartLayerMediaType}},
	}, nil
}

// links has no connection to any workload cluster.
type links struct{ clusterview.Clusters }

func (links) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	return nil, clusterlink.ErrNotConnected
}
func (links) State(client.ObjectKey) clusterlink.State { return clusterlink.State{} }
func (links) Source(handler.MapFunc) source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[ctrl.Request]) error { return nil })
}

func startController(config *rest.Config) (err error) {
	shared.client, err = suite.StartManager(config,
		func(ctx context.Context, mgr ctrl.Manager, kinds *kindcache.Kinds) error {
			reader := references.NewReader(mgr.GetCache(), mgr.GetAPIReader())
			return helmop.SetupWithManager(ctx, mgr, helmop.Options{
				Registry: shared.registry, References: reader,
				Renderer: render.New(reader, clusterview.NewReader(kinds, mgr.GetAPIReader())),
				Guard:    selection.NewGuard(mgr.GetClient()), Kinds: kinds, Clusters: links{}, Concurrency: 5,
			})
		}, sharedServer.Binaries().CoreCRDs)
	return err
}

// fixture is a namespace with Clusters and one HelmOp.
type fixture struct {
	*testing.T
	*gomega.WithT
	client.Client
	registry  *registry
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := sharedServer.Server(t).RESTConfig()
	shared.once.Do(func() {
		shared.registry = &registry{digests: map[string]string{}}
		shared.err = startController(config)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	f := &fixture{T: t, WithT: gomega.NewWithT(t), Client: shared.client, registry: shared.registry}
	f.SetDefaultEventuallyTimeout(2 * time.Minute)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "helmop-"}}
	f.must(f.Create(t.Context(), namespace))
	f.namespace = namespace.Name
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func digestOf(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// cluster creates a Cluster whose control plane is initialized.
func (f *fixture) cluster(name string) {
	f.Helper()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name,
		Labels: map[string]string{"cni": "yes"}}}
	cluster.Spec.Paused = ptr.To(false)
	f.must(f.Create(f.Context(), cluster))
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	f.must(f.Status().Update(f.Context(), cluster))
}

// helmOp creates a HelmOp for the Clusters, with the tag latest.
func (f *fixture) helmOp(change func(*addonsv1.HelmOpSpec)) *addonsv1.HelmOp {
	f.Helper()
	helmOp := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "cni"}}
	helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "yes"}}
	helmOp.Spec.Source = addonsv1.ArtifactSource{URL: "oci://registry.example/charts/cni",
		Ref: addonsv1.ArtifactReference{Tag: f.namespace}}
	if change != nil {
		change(&helmOp.Spec)
	}
	f.must(f.Create(f.Context(), helmOp))
	return helmOp
}

func (f *fixture) update(helmOp *addonsv1.HelmOp, change func(*addonsv1.HelmOp)) {
	f.Helper()
	before := helmOp.DeepCopy()
	change(helmOp)
	f.must(f.Patch(f.Context(), helmOp, client.MergeFrom(before)))
}

// releases returns the HelmOpReleases of the namespace, by the names of their Clusters.
func (f *fixture) releases() map[string]*addonsv1.HelmOpRelease {
	f.Helper()
	list := &addonsv1.HelmOpReleaseList{}
	f.must(f.List(f.Context(), list, client.InNamespace(f.namespace)))
	releases := map[string]*addonsv1.HelmOpRelease{}
	for i := range list.Items {
		releases[list.Items[i].Spec.ClusterRef.Name] = &list.Items[i]
	}
	return releases
}

// eventually waits until the HelmOp has a status of its current generation that passes a check.
func (f *fixture) eventually(helmOp *addonsv1.HelmOp, check func(g gomega.Gomega)) {
	f.Helper()
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(f.Get(f.Context(), client.ObjectKeyFromObject(helmOp), helmOp)).To(gomega.Succeed())
		g.Expect(helmOp.Status.ObservedGeneration).To(gomega.Equal(helmOp.Generation))
		check(g)
	}).Should(gomega.Succeed())
}

// ready sets a release Ready with its current spec, like the controller of releases does.
func (f *fixture) ready(release *addonsv1.HelmOpRelease) {
	f.Helper()
	before := release.DeepCopy()
	release.Status.ObservedGeneration = release.Generation
	for _, conditionType := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition,
		addonsv1.ClusterReachableCondition} {
		conditions.Set(release, metav1.Condition{
			Type: conditionType, Status: metav1.ConditionTrue, Reason: addonsv1.ReadyReason,
			ObservedGeneration: release.Generation,
		})
	}
	f.must(client.IgnoreNotFound(f.Status().Patch(f.Context(), release, client.MergeFrom(before))))
}

// TestReleasesFollowSelection selects and unselects Clusters, and pauses and deletes the HelmOp.
func TestReleasesFollowSelection(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.registry.set(f.namespace, digestOf("a"))
	for _, name := range []string{"one", "two"} {
		f.cluster(name)
	}
	helmOp := f.helmOp(nil)
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Clusters).To(gomega.HaveField("Selected", gomega.BeEquivalentTo(2)))
		g.Expect(helmOp.Status.Shard).To(gomega.HaveValue(gomega.BeEmpty()))
		g.Expect(f.releases()).To(gomega.HaveLen(2))
	})
	for _, release := range f.releases() {
		f.Expect(release.Spec.Artifact.Digest).To(gomega.Equal(digestOf("a")))
		f.Expect(release.Finalizers).To(gomega.ConsistOf(addonsv1.HelmOpReleaseFinalizer))
		f.Expect(metav1.IsControlledBy(release, helmOp)).To(gomega.BeTrue())
	}

	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = true })
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(conditions.IsTrue(helmOp, addonsv1.PausedCondition)).To(gomega.BeTrue())
	})
	cluster := &clusterv1.Cluster{}
	f.must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "two"}, cluster))
	before := cluster.DeepCopy()
	cluster.Labels = nil
	f.must(f.Patch(t.Context(), cluster, client.MergeFrom(before)))
	f.cluster("three")
	f.update(helmOp, func(h *addonsv1.HelmOp) { h.Spec.Paused = false })
	f.Eventually(func(g gomega.Gomega) {
		releases := f.releases()
		g.Expect(releases).To(gomega.HaveLen(3))
		g.Expect(releases["two"].DeletionTimestamp).NotTo(gomega.BeNil())
		g.Expect(releases["one"].DeletionTimestamp).To(gomega.BeNil())
	}).Should(gomega.Succeed())

	f.must(f.Delete(t.Context(), helmOp))
	f.Eventually(func(g gomega.Gomega) {
		for _, release := range f.releases() {
			g.Expect(release.DeletionTimestamp).NotTo(gomega.BeNil())
			before := release.DeepCopy()
			release.Finalizers = nil
			g.Expect(client.IgnoreNotFound(f.Patch(t.Context(), release, client.MergeFrom(before)))).To(gomega.Succeed())
		}
		g.Expect(client.IgnoreNotFound(f.Get(t.Context(), client.ObjectKeyFromObject(helmOp),
			&addonsv1.HelmOp{}))).To(gomega.Succeed())
		g.Expect(f.Get(t.Context(), client.ObjectKeyFromObject(helmOp), &addonsv1.HelmOp{})).NotTo(gomega.Succeed())
	}).Should(gomega.Succeed())
}

// TestResolveTagThatAppearsLater uses a tag that does not exist at first.
func TestResolveTagThatAppearsLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cluster("one")
	helmOp := f.helmOp(nil)
	f.eventually(helmOp, func(g gomega.Gomega) {
		resolved := conditions.Get(helmOp, addonsv1.ResolvedCondition)
		g.Expect(resolved).To(gomega.HaveField("Status", metav1.ConditionFalse))
		g.Expect(resolved.Message).To(gomega.ContainSubstring("does not exist"))
	})
	f.Expect(f.releases()).To(gomega.BeEmpty())
	f.registry.set(f.namespace, digestOf("b"))
	f.update(helmOp, func(h *addonsv1.HelmOp) {
		h.Annotations = map[string]string{addonsv1.ResolveRequestedAtAnnotation: "now"}
	})
	f.eventually(helmOp, func(g gomega.Gomega) {
		g.Expect(helmOp.Status.Artifact).To(gomega.HaveField("Digest", digestOf("b")))
		g.Expect(f.releases()).To(gomega.HaveLen(1))
	})
}

// TestRolloutStaysWithinMaxUnavailable sets each release Ready as soon as it has a new revision. The number of Clusters
// that are not Ready must not exceed the limit, even if passes follow each other quickly.
func TestRolloutStaysWithinMaxUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const clusters, limit = 12, 2
	for i := range clusters {
		f.cluster(fmt.Sprint("c", i))
	}
	f.registry.set(f.namespace, digestOf("0"))
	helmOp := f.helmOp(func(s *addonsv1.HelmOpSpec) {
		s.Rollout = &addonsv1.Rollout{MaxUnavailable: ptr.To(intstr.FromInt32(limit))}
	})
	for revision := int64(1); revision <= 4; revision++ {
		f.Eventually(func(g gomega.Gomega) {
			onTheirWay, done := 0, 0
			for _, release := range f.releases() {
				isReady := conditions.IsTrue(release, addonsv1.ReadyCondition) &&
					conditions.Get(release, addonsv1.ReadyCondition).ObservedGeneration == release.Generation
				switch isNewest := release.Spec.Rollout != nil && release.Spec.Rollout.Revision == revision; {
				case !isReady:
					if onTheirWay++; isNewest {
						f.ready(release)
					}
				case isNewest:
					done++
				}
			}
			if revision > 1 && onTheirWay > limit {
				f.Fatalf("HelmOp revision %d: %d Clusters are on their way", revision, onTheirWay)
			}
			g.Expect(done).To(gomega.Equal(clusters))
		}).WithTimeout(2 * time.Minute).Should(gomega.Succeed())
		f.eventually(helmOp, func(g gomega.Gomega) {
			g.Expect(helmOp.Status.Rollout).To(gomega.HaveField("Phase", addonsv1.RolloutPhaseComplete))
			g.Expect(helmOp.Status.Rollout.Revision).To(gomega.Equal(revision))
		})
		f.update(helmOp, func(h *addonsv1.HelmOp) {
			h.Spec.Values = nil
			h.Spec.ValuesTemplate = fmt.Sprintf("revision: %d", revision)
		})
	}
	revisions := &addonsv1.HelmOpRevisionList{}
	f.must(f.List(t.Context(), revisions, client.InNamespace(f.namespace)))
	f.Expect(len(revisions.Items)).To(gomega.BeNumerically("<=", 5), "each spec has one revision")
}
