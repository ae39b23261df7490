// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/controllers/cluster"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterlink"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/clusterview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest/suite"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
	controlplanev1 "github.com/helmop/cluster-api-addon-provider-helmop/test/infrastructure/local/api/controlplane/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/apiserver"
)

const (
	oldVersion = "v1.35.0"
	newVersion = "v1.36.0"

	// clusterName is the name of the Cluster of most tests.
	clusterName = "c"

	digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// sharedServer is the API server for the tests of the suite. One controller of Clusters serves all their namespaces.
var sharedServer apiserver.Shared

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(sharedServer.Run(m))
}

var shared struct {
	once   sync.Once
	client client.WithWatch
	err    error

	// passes are the passes over Clusters that are read for no release, see awaitPass.
	mu     sync.Mutex
	passes map[client.ObjectKey]int
}

func countPass(c client.ObjectKey) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.passes[c]++
}

func passes(c client.ObjectKey) int {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return shared.passes[c]
}

// startController starts the controller of Clusters. The CustomResourceDefinitions of the local infrastructure provider
// are for control planes: the suite has no other controller, and the tests write their status.
func startController(t *testing.T) {
	t.Helper()
	config := sharedServer.Server(t).RESTConfig()
	shared.once.Do(func() {
		shared.passes = map[client.ObjectKey]int{}
		shared.client, shared.err = suite.StartManager(config,
			func(_ context.Context, mgr ctrl.Manager, kinds *kindcache.Kinds) error {
				if err := controlplanev1.AddToScheme(mgr.GetScheme()); err != nil {
					return err
				}
				return cluster.SetupWithManager(mgr, cluster.Options{
					Objects: clusterview.NewReader(kinds, mgr.GetAPIReader()), Budgets: report.NewEventBudgets(time.Now), Kinds: kinds,
					Forget: func(client.ObjectKey) {}, ForgetReads: countPass, Concurrency: 5,
					Link: func(client.ObjectKey) clusterlink.State { return clusterlink.State{} },
				})
			}, sharedServer.Binaries().CoreCRDs,
			filepath.Join("..", "..", "test", "infrastructure", "local", "config", "crd"))
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
}

// fixture is a namespace for the objects of one test.
type fixture struct {
	*testing.T
	*gomega.WithT
	client.WithWatch
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	startController(t)
	f := &fixture{T: t, WithT: gomega.NewWithT(t), WithWatch: shared.client}
	f.SetDefaultEventuallyTimeout(2 * time.Minute)
	f.SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	f.namespace = f.newNamespace()
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) newNamespace() string {
	f.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "cluster-"}}
	f.must(f.Create(f.Context(), namespace))
	return namespace.Name
}

// cluster creates a Cluster with a ClusterClass and a Kubernetes version, and waits for the first pass over it.
func (f *fixture) cluster() *clusterv1.Cluster {
	f.Helper()
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: clusterName,
		Finalizers: []string{clusterv1.ClusterFinalizer}}}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: oldVersion}
	f.awaitCount(func() { f.must(f.Create(f.Context(), c)) })
	return c
}

// initialized reports the control plane of the Cluster as initialized, like Cluster API does. The Cluster must have no
// releases, or only paused releases.
func (f *fixture) initialized(c *clusterv1.Cluster) {
	f.Helper()
	f.awaitCount(func() {
		updateStatus(f, c, func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = ptr.To(true) })
	})
}

// helmOp creates a HelmOp that selects all Clusters of the namespace.
func (f *fixture) helmOp(name string, change func(*addonsv1.HelmOpSpec)) *addonsv1.HelmOp {
	f.Helper()
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	h.Spec.ClusterSelector = &metav1.LabelSelector{}
	h.Spec.Source = addonsv1.ArtifactSource{URL: "oci://registry.example/charts/cni",
		Ref: addonsv1.ArtifactReference{Tag: "1.0.0"}}
	if change != nil {
		change(&h.Spec)
	}
	f.must(f.Create(f.Context(), h))
	return h
}

// release creates the release of a HelmOp in the Cluster, like the controller of HelmOps does. It has the options of
// the HelmOp for the Cluster.
func (f *fixture) release(helmOp *addonsv1.HelmOp) *addonsv1.HelmOpRelease {
	f.Helper()
	r := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: helmOp.Namespace, Name: apiutil.ChildName(helmOp.Name, clusterName),
		Finalizers: []string{addonsv1.HelmOpReleaseFinalizer}, Labels: apiutil.ChildSelector(helmOp),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(helmOp,
			addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))},
	}}
	r.Labels[clusterv1.ClusterNameLabel] = clusterName
	r.Spec.ClusterRef.Name = clusterName
	if helmOp.Namespace != f.namespace {
		r.Spec.ClusterRef.Namespace = f.namespace
	}
	r.Spec.Release = addonsv1.ReleaseIdentity{Name: "cni", Namespace: "kube-system"}
	r.Spec.Artifact = addonsv1.ResolvedArtifact{URL: helmOp.Spec.Source.URL, Digest: digest}
	r.Spec.ValuesDigest, r.Spec.DeletionPolicy = digest, addonsv1.DeletionPolicyUninstall
	r.Spec.ClusterOptions, r.Spec.KubernetesVersion = helmOp.Spec.ClusterOptions, oldVersion
	f.must(f.Create(f.Context(), r))
	return r
}

// update writes a change of an object, and updateStatus a change of its status.
func update[T client.Object](f *fixture, object T, change func(T)) {
	f.Helper()
	before := object.DeepCopyObject().(client.Object)
	change(object)
	f.must(f.Patch(f.Context(), object, client.MergeFrom(before)))
}

func updateStatus[T client.Object](f *fixture, object T, change func(T)) {
	f.Helper()
	before := object.DeepCopyObject().(client.Object)
	change(object)
	f.must(f.Status().Patch(f.Context(), object, client.MergeFrom(before)))
}

// report sets the condition Ready of a release for its current spec, like the controller of releases does.
func (f *fixture) report(release *addonsv1.HelmOpRelease, status metav1.ConditionStatus, reason string) {
	f.Helper()
	updateStatus(f, release, func(r *addonsv1.HelmOpRelease) {
		conditions.Set(r, metav1.Condition{Type: addonsv1.ReadyCondition, Status: status, Reason: reason,
			ObservedGeneration: r.Generation})
	})
}

// uninstalled removes the finalizer of a release, like the controller of releases does after the uninstallation.
func (f *fixture) uninstalled(release *addonsv1.HelmOpRelease) {
	f.Helper()
	f.must(f.Get(f.Context(), client.ObjectKeyFromObject(release), release))
	update(f, release, func(r *addonsv1.HelmOpRelease) { r.Finalizers = nil })
}

// eventually waits until the Cluster passes a check.
func (f *fixture) eventually(c *clusterv1.Cluster, check func(g gomega.Gomega)) {
	f.Helper()
	f.Eventually(func(g gomega.Gomega) {
		current := &clusterv1.Cluster{}
		g.Expect(f.Get(f.Context(), client.ObjectKeyFromObject(c), current)).To(gomega.Succeed())
		*c = *current
		check(g)
	}).Should(gomega.Succeed())
}

// eventuallyEvent waits for an Event about the Cluster.
func (f *fixture) eventuallyEvent(reason, eventType, note string) {
	f.Helper()
	f.Eventually(func(g gomega.Gomega) {
		list := &eventsv1.EventList{}
		g.Expect(f.List(f.Context(), list, client.InNamespace(f.namespace))).To(gomega.Succeed())
		g.Expect(list.Items).To(gomega.ContainElement(gomega.And(gomega.HaveField("Regarding.Kind", "Cluster"),
			gomega.HaveField("Reason", reason), gomega.HaveField("Type", eventType),
			gomega.HaveField("Note", gomega.ContainSubstring(note)))))
	}).Should(gomega.Succeed())
}

// awaitPass waits until the controller has finished a pass over the Cluster that began after the call. It pauses all
// releases of the Cluster: then the controller calls Options.ForgetReads at the beginning of each pass. The second call
// shows that the pass of the first call is finished, because there is one pass over a Cluster at a time.
func (f *fixture) awaitPass(releases ...*addonsv1.HelmOpRelease) {
	f.Helper()
	for i := range 2 {
		f.awaitCount(func() {
			for _, release := range releases {
				update(f, release, func(r *addonsv1.HelmOpRelease) {
					metav1.SetMetaDataAnnotation(&r.ObjectMeta, clusterv1.PausedAnnotation, strconv.Itoa(i))
				})
			}
		})
	}
}

// awaitCount makes a change and waits until the controller has called Options.ForgetReads for the Cluster.
func (f *fixture) awaitCount(change func()) {
	f.Helper()
	key := client.ObjectKey{Namespace: f.namespace, Name: clusterName}
	before := passes(key)
	change()
	f.Eventually(func() int { return passes(key) }).Should(gomega.BeNumerically(">", before))
}

// haveCondition matches a Cluster with a condition.
func haveCondition(conditionType string, status metav1.ConditionStatus, message string) gomega.OmegaMatcher {
	return gomega.HaveField("Status.Conditions", gomega.ContainElement(gomega.And(
		gomega.HaveField("Type", conditionType), gomega.HaveField("Status", status),
		gomega.HaveField("Message", gomega.ContainSubstring(message)))))
}
