// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/helmoprelease"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/artifacts"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest/suite"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/recordreads"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/render"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

// sharedServer is the API server for the tests in this file. It is the management cluster and each workload cluster.
// One controller of HelmOpReleases serves all namespaces of the tests.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) {
	sandbox.Serve(rendering.Tasks())
	ctrl.SetLogger(logr.Discard())
	os.Exit(sharedServer.Run(m))
}

var shared struct {
	once     sync.Once
	client   client.Client
	cached   client.Reader
	requests requests
	charts   *charts
	renderer *render.Renderer
	err      error
}

// charts has the charts that the tests set, by the digests of their artifacts. All of them are in the store.
type charts struct {
	artifacts.Fetcher
	artifacts.ChartLoader
	mu    sync.Mutex
	known map[string]*bundle.Chart
}

func (c *charts) set(digest string, chart *bundle.Chart) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[digest] = chart
}

func (*charts) Stored(url, digest string) (*oci.Content, bool) {
	return &oci.Content{URL: url, Digest: digest}, true
}

func (c *charts) Cached(source bundle.Source) (*bundle.Chart, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	chart, ok := c.known[source.Digest]
	return chart, ok
}

// requests are the requests of the controller and its watches to the Clusters.
type requests struct {
	mu   sync.Mutex
	sent []*http.Request
	// watched are the paths of the watches, by the namespaces of the Clusters.
	watched map[string][]string
}

// wrapOf wraps the transport for a Cluster in a namespace.
func (r *requests) wrapOf(namespace string) transport.WrapperFunc {
	return func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(request *http.Request) (*http.Response, error) {
			r.mu.Lock()
			r.sent = append(r.sent, &http.Request{Method: request.Method, URL: request.URL})
			if request.URL.Query().Get("watch") == "true" {
				r.watched[namespace] = append(r.watched[namespace], request.URL.Path)
			}
			r.mu.Unlock()
			return base.RoundTrip(request)
		})
	}
}

// watchesOf returns the paths of the watches so far in the Cluster of a namespace.
func (r *requests) watchesOf(namespace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.watched[namespace])
}

// in returns the number of requests for objects in a namespace so far, by the verb and the resource.
func (r *requests) in(namespace string) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := map[string]int{}
	for _, request := range r.sent {
		_, path, ok := strings.Cut(request.URL.Path, "/namespaces/"+namespace+"/")
		if !ok {
			continue
		}
		resource, _, isOne := strings.Cut(path, "/")
		verb := request.Method
		switch {
		case request.URL.Query().Get("watch") == "true":
			verb = "WATCH"
		case verb == http.MethodGet && !isOne:
			verb = "LIST"
		}
		count[verb+" "+resource]++
	}
	return count
}

// to returns the number of requests for a path so far.
func (r *requests) to(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, request := range r.sent {
		if request.URL.Path == path {
			count++
		}
	}
	return count
}

// links connects each Cluster to one API server.
type links struct {
	*clusterlink.Links
	config *rest.Config
}

func (l *links) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	config := rest.CopyConfig(l.config)
	config.WrapTransport = shared.requests.wrapOf(cluster.Namespace)
	return config, nil
}

func startController(config *rest.Config) (err error) {
	shared.client, err = suite.StartManager(config,
		func(ctx context.Context, mgr ctrl.Manager, _ *kindcache.Kinds) error {
			clusters := &links{Links: clusterlink.New(clusterlink.Options{}), config: rest.CopyConfig(config)}
			watcher := objectwatch.New(objectwatch.Options{})
			reader := references.NewReader(mgr.GetCache(), mgr.GetAPIReader())
			shared.cached = mgr.GetClient()
			shared.renderer = render.New(reader, clusterview.NewReader(mgr.GetAPIReader(), mgr.GetAPIReader()))
			return errors.Join(mgr.Add(watcher), helmoprelease.SetupWithManager(ctx, mgr, helmoprelease.Options{
				Registry: shared.charts, Charts: shared.charts, Engine: helmclient.New(sandbox.NewPool(sandbox.Options{})),
				Watcher: watcher, Clusters: clusters, Kubeconfigs: mgr.GetAPIReader(), References: reader,
				Renderer: shared.renderer, Guard: selection.NewGuard(mgr.GetClient()), Reads: recordreads.New(5, clusters),
				Budgets: report.NewEventBudgets(time.Now), Concurrency: 5,
			}))
		}, sharedServer.Binaries().CoreCRDs)
	return err
}

// fixture is a namespace with a Cluster and a HelmOp that selects the Cluster. The releases of the HelmOp are in the
// same namespace.
type fixture struct {
	*testing.T
	*gomega.WithT
	client.Client
	namespace string
	helmOp    *addonsv1.HelmOp
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := sharedServer.Server(t).RESTConfig()
	shared.once.Do(func() {
		shared.charts = &charts{known: map[string]*bundle.Chart{}}
		shared.requests.watched = map[string][]string{}
		shared.err = startController(config)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	f := &fixture{T: t, WithT: gomega.NewWithT(t), Client: shared.client}
	f.SetDefaultEventuallyTimeout(time.Minute)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	f.namespace = f.namespaceWithCluster()
	f.helmOp = &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "cni"}}
	f.helmOp.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"cni": "yes"}}
	f.helmOp.Spec.Source = addonsv1.ArtifactSource{URL: "oci://registry.example/charts/cni",
		Ref: addonsv1.ArtifactReference{Tag: "latest"}}
	f.helmOp.Spec.Release = addonsv1.ReleaseTemplate{Name: "cni", Namespace: f.namespace}
	f.helmOp.Spec.ValuesTemplate = "cidr: first"
	f.must(f.Create(t.Context(), f.helmOp))
	return f
}

// namespaceWithCluster creates a namespace with a Cluster whose control plane is initialized.
func (f *fixture) namespaceWithCluster() string {
	f.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "release-"}}
	f.must(f.Create(f.Context(), namespace))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: "one",
		Labels: map[string]string{"cni": "yes"}}}
	cluster.Spec.Paused = new(false)
	f.must(f.Create(f.Context(), cluster))
	cluster.Status.Initialization.ControlPlaneInitialized = new(true)
	f.must(f.Status().Update(f.Context(), cluster))
	return namespace.Name
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// artifact returns the artifact of a chart with templates. Each test has charts of its own.
func (f *fixture) artifact(version string, templates map[string]string) addonsv1.ResolvedArtifact {
	digest := "sha256:" + apiutil.HexDigest(f.namespace+version)
	shared.charts.set(digest, helmtest.NewChart(version, templates))
	return addonsv1.ResolvedArtifact{URL: f.helmOp.Spec.Source.URL, Digest: digest, Version: version}
}

// valuesDigest returns the digest that the controller of HelmOps assigns for the current spec of the HelmOp.
func (f *fixture) valuesDigest() string {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: "one"}, cluster))
	object := &unstructured.Unstructured{}
	var err error
	object.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(cluster)
	f.must(err)
	object.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	rendered, _, err := shared.renderer.Values(f.Context(), f.helmOp, object, cluster)
	f.must(err)
	return rendered.Digest
}

// release creates a release of the HelmOp, like the controller of HelmOps does.
func (f *fixture) release(artifact addonsv1.ResolvedArtifact,
	change func(*addonsv1.HelmOpRelease),
) *addonsv1.HelmOpRelease {
	f.Helper()
	release := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "cni-one",
		Labels: apiutil.ChildSelector(f.helmOp), OwnerReferences: []metav1.OwnerReference{
			*metav1.NewControllerRef(f.helmOp, addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))}}}
	release.Labels[clusterv1.ClusterNameLabel] = "one"
	release.Spec = addonsv1.HelmOpReleaseSpec{
		ClusterRef: addonsv1.ClusterReference{Name: "one"},
		Release:    addonsv1.ReleaseIdentity{Name: "cni", Namespace: f.namespace},
		Artifact:   artifact, ValuesDigest: f.valuesDigest(), DeletionPolicy: addonsv1.DeletionPolicyUninstall,
	}
	if change != nil {
		change(release)
	}
	// The caches of HelmOps and HelmOpReleases are independent. The controller must not read an older HelmOp.
	key := client.ObjectKeyFromObject(f.helmOp)
	f.must(f.Get(f.Context(), key, f.helmOp))
	f.Eventually(func(g gomega.Gomega) {
		known := &addonsv1.HelmOp{}
		g.Expect(shared.cached.Get(f.Context(), key, known)).To(gomega.Succeed())
		g.Expect(known.ResourceVersion).To(gomega.Equal(f.helmOp.ResourceVersion))
	}).Should(gomega.Succeed())
	f.must(f.Create(f.Context(), release))
	return release
}

// patch writes a change of an object.
func patch[T client.Object](f *fixture, obj T, change func()) {
	f.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	f.must(f.Patch(f.Context(), obj, client.MergeFrom(before)))
}

// unselect removes the label of the Cluster, so that the HelmOp does not select it.
func (f *fixture) unselect() {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.namespace, Name: "one"}, cluster))
	patch(f, cluster, func() { cluster.Labels = nil })
}

// eventually waits until the release has a status of its current generation that passes a check.
func (f *fixture) eventually(release *addonsv1.HelmOpRelease, check func(g gomega.Gomega)) {
	f.Helper()
	f.Eventually(func(g gomega.Gomega) {
		g.Expect(f.Get(f.Context(), client.ObjectKeyFromObject(release), release)).To(gomega.Succeed())
		g.Expect(release.Status.ObservedGeneration).To(gomega.Equal(release.Generation))
		check(g)
	}).Should(gomega.Succeed())
}

// ready waits until the release is Ready with a Helm revision.
func (f *fixture) ready(release *addonsv1.HelmOpRelease, revision int64) {
	f.Helper()
	f.eventually(release, func(g gomega.Gomega) {
		for _, conditionType := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition,
			addonsv1.ClusterReachableCondition} {
			condition := conditions.Get(release, conditionType)
			g.Expect(condition).To(gomega.HaveField("Status", metav1.ConditionTrue), conditionType)
			g.Expect(condition.ObservedGeneration).To(gomega.Equal(release.Generation), conditionType)
		}
		g.Expect(release.Status.Release).To(gomega.HaveField("Revision", revision))
	})
}

// gone waits until the release does not exist.
func (f *fixture) gone(release *addonsv1.HelmOpRelease) {
	f.Helper()
	f.Eventually(func() bool {
		return apierrors.IsNotFound(f.Get(f.Context(), client.ObjectKeyFromObject(release), release))
	}).Should(gomega.BeTrue(), "the HelmOpRelease is still there")
}

// configMaps returns the values in the ConfigMaps of the chart, by their names.
func (f *fixture) configMaps() map[string]string {
	f.Helper()
	list := &corev1.ConfigMapList{}
	f.must(f.List(f.Context(), list, client.InNamespace(f.namespace)))
	found := map[string]string{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].Data["key"]
	}
	return found
}

// records returns the number of Helm's records.
func (f *fixture) records() int {
	f.Helper()
	list := &corev1.SecretList{}
	f.must(f.List(f.Context(), list, client.InNamespace(f.namespace), client.MatchingLabels{"owner": "helm"}))
	return len(list.Items)
}

// TestInstallUpgradeUninstall follows a release from its installation to its uninstallation.
func TestInstallUpgradeUninstall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), nil)
	f.ready(release, 1)
	f.Expect(release.Finalizers).To(gomega.ConsistOf(addonsv1.HelmOpReleaseFinalizer))
	f.Expect(release.Status.Release).To(gomega.HaveField("Version", "1.0.0"))
	f.Expect(f.configMaps()).To(gomega.Equal(map[string]string{"cni-value": "first", "first": "1"}))

	patch(f, f.helmOp, func() { f.helmOp.Spec.ValuesTemplate = "cidr: second" })
	artifact, digest := f.artifact("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap}), f.valuesDigest()
	patch(f, release, func() { release.Spec.Artifact, release.Spec.ValuesDigest = artifact, digest })
	f.ready(release, 2)
	f.Expect(release.Status.Release).To(gomega.HaveField("Version", "2.0.0"))
	f.Expect(f.configMaps()).To(gomega.Equal(map[string]string{"cni-value": "second"}))

	f.unselect()
	f.must(f.Delete(t.Context(), release))
	f.gone(release)
	f.Expect(f.configMaps()).To(gomega.BeEmpty())
	f.Expect(f.records()).To(gomega.BeZero())
}

// TestClusterBeingMovedIsReported checks that a release reports the annotation of clusterctl move on its Cluster, as
// long as the Cluster has the annotation, also while the Cluster is paused. The release continues.
func TestClusterBeingMovedIsReported(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), nil)
	f.ready(release, 1)
	mark := func(isMarked, isPaused bool) {
		f.Helper()
		cluster := &clusterv1.Cluster{}
		f.must(f.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "one"}, cluster))
		patch(f, cluster, func() {
			cluster.Annotations, cluster.Spec.Paused = map[string]string{}, ptr.To(isPaused)
			if isMarked {
				cluster.Annotations[clusterctlv1.DeleteForMoveAnnotation] = ""
			}
		})
	}
	isReported := func(isPaused bool) {
		f.Helper()
		f.eventually(release, func(g gomega.Gomega) {
			g.Expect(conditions.IsTrue(release, addonsv1.PausedCondition)).To(gomega.Equal(isPaused))
			g.Expect(conditions.GetReason(release, addonsv1.ClusterBeingMovedCondition)).To(
				gomega.Equal(addonsv1.BeingMovedReason))
			g.Expect(conditions.GetMessage(release, addonsv1.ClusterBeingMovedCondition)).To(gomega.HaveSuffix(
				" annotate clusters.cluster.x-k8s.io one " + clusterctlv1.DeleteForMoveAnnotation + "-"))
		})
	}
	mark(true, false)
	isReported(false)
	f.ready(release, 1)
	mark(true, true)
	isReported(true)
	mark(false, true)
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(conditions.Has(release, addonsv1.ClusterBeingMovedCondition)).To(gomega.BeFalse())
	})
	mark(false, false)
	f.ready(release, 1)
}

// TestSelectedReleaseStaysInstalled deletes a HelmOpRelease that the HelmOp still needs.
func TestSelectedReleaseStaysInstalled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	artifact := f.artifact("1.0.0", helmtest.TwoConfigMaps())
	release := f.release(artifact, nil)
	f.ready(release, 1)
	f.must(f.Delete(t.Context(), release))
	f.gone(release)
	f.Expect(f.configMaps()).To(gomega.HaveLen(2))
	f.ready(f.release(artifact, nil), 1)
	f.Expect(f.records()).To(gomega.Equal(1), "the release was installed again")
}

// TestFailedInstallationIsRetriedOnRequest installs a chart with an object in a namespace that does not exist. The
// release has no automatic retries.
func TestFailedInstallationIsRetriedOnRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	later := f.namespace + "-later"
	release := f.release(f.artifact("1.0.0", map[string]string{
		"later.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later, namespace: %s}\n", later),
	}), func(r *addonsv1.HelmOpRelease) {
		r.Spec.Install = &addonsv1.InstallOptions{Remediation: &addonsv1.InstallRemediation{Retries: new(int32(0))}}
	})
	failed := func(g gomega.Gomega, reason string) {
		for _, conditionType := range []string{addonsv1.ReadyCondition, addonsv1.ReleasedCondition} {
			condition := conditions.Get(release, conditionType)
			g.Expect(condition).To(gomega.HaveField("Status", metav1.ConditionFalse), conditionType)
			g.Expect(condition.Reason).To(gomega.Equal(reason), conditionType)
			g.Expect(condition.Message).To(gomega.ContainSubstring(later), conditionType)
		}
		g.Expect(conditions.Get(release, addonsv1.StalledCondition)).To(
			gomega.HaveField("Reason", addonsv1.RetriesExhaustedReason))
		g.Expect(release.Status.Failures).To(gomega.BeEquivalentTo(1))
	}
	f.eventually(release, func(g gomega.Gomega) { failed(g, addonsv1.InstallFailedReason) })
	request := func(value string) {
		f.Helper()
		patch(f, release, func() {
			metav1.SetMetaDataAnnotation(&release.ObjectMeta, addonsv1.RetryRequestedAtAnnotation, value)
		})
	}
	request("first")
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(release.Status.LastRetryRequest).To(gomega.Equal("first"))
		// The record of the failed installation exists, so the retry is an upgrade.
		failed(g, addonsv1.UpgradeFailedReason)
	})

	f.must(f.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}}))
	request("second")
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(conditions.IsTrue(release, addonsv1.ReadyCondition)).To(gomega.BeTrue())
		g.Expect(conditions.Has(release, addonsv1.StalledCondition)).To(gomega.BeFalse())
		g.Expect(release.Status.Failures).To(gomega.BeZero())
	})
	f.must(f.Get(t.Context(), client.ObjectKey{Namespace: later, Name: "later"}, &corev1.ConfigMap{}))
}

// TestInstalledOnceEnds changes the chart of a release that is installed only once. The change has no effect until the
// strategy changes.
func TestInstalledOnceEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), func(r *addonsv1.HelmOpRelease) {
		r.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyInstallOnce
	})
	isDone := func(g gomega.Gomega) {
		g.Expect(conditions.GetReason(release, addonsv1.ReadyCondition)).To(gomega.Equal(addonsv1.InstalledOnceReason))
		g.Expect(release.Annotations).To(gomega.HaveKeyWithValue(addonsv1.InstalledOnceAnnotation, "true"))
	}
	f.eventually(release, isDone)
	artifact := f.artifact("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	patch(f, release, func() { release.Spec.Artifact = artifact })
	f.eventually(release, isDone)
	f.Expect(f.configMaps()).To(gomega.HaveLen(2))
	f.Expect(f.records()).To(gomega.Equal(1))

	patch(f, release, func() { release.Spec.ReconcileStrategy = addonsv1.ReconcileStrategyContinuous })
	f.ready(release, 2)
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(release.Annotations).NotTo(gomega.HaveKey(addonsv1.InstalledOnceAnnotation))
	})
	f.Expect(f.configMaps()).To(gomega.HaveLen(1))
}

// TestNoActionForHelmOpUnderDeletion checks that no action begins for a release whose HelmOp is under deletion, even if
// the release is not deleted yet. A slow hook would delay the uninstallation.
func TestNoActionForHelmOpUnderDeletion(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	patch(f, f.helmOp, func() { f.helmOp.Finalizers = []string{"test.example/hold"} })
	f.must(f.Delete(t.Context(), f.helmOp))
	release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), nil)
	f.eventually(release, func(g gomega.Gomega) {
		g.Expect(conditions.Get(release, addonsv1.ReadyCondition)).To(
			gomega.HaveField("Reason", addonsv1.DeletingReason))
	})
	f.Expect(release.Finalizers).To(gomega.BeEmpty())
	f.Expect(f.configMaps()).To(gomega.BeEmpty())
	f.Expect(f.records()).To(gomega.BeZero())
}

// TestReleaseWaitsForOwner checks that a release without a HelmOp is not uninstalled at once. A restore from a backup
// may be running.
func TestReleaseWaitsForOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), func(r *addonsv1.HelmOpRelease) {
		r.OwnerReferences[0].Name, r.OwnerReferences[0].UID = "restored-later", types.UID("restored-later")
		r.Finalizers = []string{addonsv1.HelmOpReleaseFinalizer}
	})
	f.must(f.Delete(t.Context(), release))
	f.eventually(release, func(g gomega.Gomega) {
		ready := conditions.Get(release, addonsv1.ReadyCondition)
		g.Expect(ready).To(gomega.HaveField("Reason", addonsv1.OwnerNotFoundReason))
		g.Expect(ready.Message).To(gomega.ContainSubstring(addonsv1.DeletionAdmittedAnnotation + "=restored-later"))
		recorded := &eventsv1.EventList{}
		g.Expect(f.List(t.Context(), recorded, client.InNamespace(f.namespace))).To(gomega.Succeed())
		g.Expect(recorded.Items).To(gomega.ContainElement(gomega.HaveField("Reason", addonsv1.OwnerNotFoundReason)))
	})
	f.Expect(release.Finalizers).To(gomega.ConsistOf(addonsv1.HelmOpReleaseFinalizer))

	// The annotation keeps the release in its cluster.
	patch(f, release, func() { release.Annotations = map[string]string{addonsv1.OrphanAnnotation: "true"} })
	f.gone(release)
}

// grant permits a ServiceAccount of the HelmOp's namespace to get Secrets of a namespace: the named ones, or all.
func (f *fixture) grant(account, namespace string, secrets ...string) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: account}
	f.must(f.Create(f.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: secrets}}}))
	f.must(f.Create(f.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: account}}}))
	// HelmOp caches a refusal, so the API server must know the role before the release exists.
	f.Eventually(func(g gomega.Gomega) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + f.namespace + ":" + account,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get",
				Resource: "secrets", Name: "one-kubeconfig"}}}
		g.Expect(f.Create(f.Context(), review)).To(gomega.Succeed())
		g.Expect(review.Status.Allowed).To(gomega.BeTrue())
	}).Should(gomega.Succeed())
}

// TestMayAccess checks which HelmOps may access a Cluster of another namespace.
func TestMayAccess(t *testing.T) {
	t.Parallel()
	const one = "one-kubeconfig"
	for name, test := range map[string]struct {
		account string // in the spec of the HelmOp
		grant   func(f *fixture, namespace string)
		isOwn   bool // the Cluster is in the namespace of the HelmOp
		isGone  bool // the HelmOp does not exist
		want    string
	}{
		"its own namespace": {isOwn: true, isGone: true, want: addonsv1.UpdatingReason},
		"granted": {account: "installer", want: addonsv1.ReadyReason,
			grant: func(f *fixture, namespace string) { f.grant("installer", namespace, one) }},
		"all are granted": {account: "installer", want: addonsv1.ReadyReason,
			grant: func(f *fixture, namespace string) { f.grant("installer", namespace) }},
		"not granted": {account: "installer", want: addonsv1.ClusterAccessDeniedReason},
		"not set": {want: addonsv1.ClusterAccessDeniedReason,
			grant: func(f *fixture, namespace string) { f.grant("installer", namespace) }},
		"the HelmOp is gone": {account: "installer", isGone: true, want: addonsv1.ClusterAccessDeniedReason,
			grant: func(f *fixture, namespace string) { f.grant("installer", namespace) }},
		"granted to another": {account: "other", want: addonsv1.ClusterAccessDeniedReason,
			grant: func(f *fixture, namespace string) { f.grant("installer", namespace) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			cluster := addonsv1.ClusterReference{Name: "one"}
			if !test.isOwn {
				cluster.Namespace = f.namespaceWithCluster()
			}
			if test.grant != nil {
				test.grant(f, cluster.Namespace)
			}
			if test.account != "" {
				patch(f, f.helmOp, func() {
					f.helmOp.Spec.ClusterNamespaces = &addonsv1.ClusterNamespaces{
						AuthorizationServiceAccountName: test.account}
				})
			}
			release := f.release(f.artifact("1.0.0", helmtest.TwoConfigMaps()), func(r *addonsv1.HelmOpRelease) {
				r.Spec.ClusterRef = cluster
				if test.isGone {
					r.OwnerReferences[0].Name = "gone"
				}
			})
			f.eventually(release, func(g gomega.Gomega) {
				g.Expect(conditions.GetReason(release, addonsv1.ReadyCondition)).To(gomega.Equal(test.want))
			})
			f.Expect(f.records() > 0).To(gomega.Equal(test.want == addonsv1.ReadyReason))
		})
	}
}
