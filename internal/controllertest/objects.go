// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// These are objects of releases.
var (
	Deployment = inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "apps", Name: "web"}

	ConfigMap = inventory.Ref{Version: "v1", Kind: "ConfigMap", Namespace: "apps", Name: "config"}

	Custom = inventory.Ref{Group: "example.com", Version: "v1", Kind: "Widget", Namespace: "apps", Name: "w"}
)

// Meta returns the metadata of an object in namespace "n".
func Meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "n", Name: name} }

// Opaque returns a Secret.
func Opaque(name string, data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: Meta(name), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// PullSecret returns a Secret with credentials of a registry.
func PullSecret(name, config string) *corev1.Secret {
	secret := Opaque(name, map[string]string{corev1.DockerConfigJsonKey: config})
	secret.Type = corev1.SecretTypeDockerConfigJson
	return secret
}

// HelmOpWith returns a HelmOp with a source.
func HelmOpWith(source addonsv1.ArtifactSource) *addonsv1.HelmOp {
	if source.URL == "" {
		source.URL = "oci://registry.example/charts/hello"
	}
	return &addonsv1.HelmOp{ObjectMeta: Meta("hello"), Spec: addonsv1.HelmOpSpec{Source: source}}
}

// SecretRef returns a reference to a Secret.
func SecretRef(name string) *addonsv1.SecretReference { return &addonsv1.SecretReference{Name: name} }

// ClientOf returns a client with copies of some core objects.
func ClientOf(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithObjects(Copies(objects...)...).Build()
}

// Copies returns copies of objects. A client in memory writes to its objects, which parallel tests may share.
func Copies(objects ...client.Object) []client.Object {
	copies := make([]client.Object, len(objects))
	for i, object := range objects {
		copies[i] = object.DeepCopyObject().(client.Object)
	}
	return copies
}

// RemoveReleaseFinalizer removes the finalizer of a release.
func RemoveReleaseFinalizer(t *testing.T, c client.Client, release *addonsv1.HelmOpRelease) {
	t.Helper()
	stored := &addonsv1.HelmOpRelease{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(release), stored); err != nil {
		t.Fatal(err)
	}
	stored.Finalizers = nil
	if err := c.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
}

// WithIndexes registers the indexes of apiutil, as the cache of a manager has them.
func WithIndexes(builder *fake.ClientBuilder) *fake.ClientBuilder {
	return builder.WithIndex(&addonsv1.HelmOpRelease{}, apiutil.ClusterIndex, apiutil.ClustersOfRelease).
		WithIndex(&addonsv1.HelmOpRelease{}, apiutil.UIDIndex, apiutil.UIDsOfRelease).
		WithIndex(&addonsv1.HelmOpRelease{}, apiutil.HelmOpIndex, apiutil.HelmOpsOfRelease).
		WithIndex(&addonsv1.HelmOpRelease{}, apiutil.DependsOnIndex, apiutil.DependenciesOfRelease).
		WithIndex(&addonsv1.HelmOp{}, apiutil.DependsOnIndex, apiutil.DependenciesOfHelmOp)
}

// StoreOf returns a client of a management cluster with some objects.
func StoreOf(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := WithIndexes(fake.NewClientBuilder().WithScheme(scheme)).WithStatusSubresource(&addonsv1.HelmOpRelease{})
	for _, obj := range objects {
		obj = obj.DeepCopyObject().(client.Object)
		obj.SetResourceVersion("")
		builder.WithObjects(obj)
	}
	return builder.Build()
}

// UpToDateHelmOp returns a HelmOp that selects the Clusters with its name as a label, and has assigned its current
// revision to its releases.
func UpToDateHelmOp(t testing.TB, name string, change func(*addonsv1.HelmOp)) *addonsv1.HelmOp {
	t.Helper()
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Generation: 3,
		ResourceVersion: "1"}}
	h.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{name: "yes"}}
	h.Spec.Source.URL = "oci://registry.example/charts/" + name
	source, err := apiutil.SourceDigest(&h.Spec.Source)
	if err != nil {
		t.Fatal(err)
	}
	h.Status.Artifact = &addonsv1.ArtifactStatus{SourceDigest: source}
	h.Status.Rollout = &addonsv1.RolloutStatus{Revision: 7, Phase: addonsv1.RolloutPhaseComplete}
	report.SetCondition(h, addonsv1.RollingOutCondition, metav1.ConditionFalse, addonsv1.NotRollingOutReason, "")
	if change != nil {
		change(h)
	}
	return h
}

// ReadyRelease returns a Ready release in Cluster "one".
func ReadyRelease(helmOp string, change func(*addonsv1.HelmOpRelease)) *addonsv1.HelmOpRelease {
	owner := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: helmOp, UID: "u"}}
	r := &addonsv1.HelmOpRelease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: helmOp + "-one", Generation: 2, ResourceVersion: "1",
		Labels: apiutil.ChildSelector(owner),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner,
			addonsv1.GroupVersion.WithKind(apiutil.HelmOpKind))},
		Finalizers: []string{addonsv1.HelmOpReleaseFinalizer},
	}}
	r.Labels[clusterv1.ClusterNameLabel] = "one"
	r.Spec.ClusterRef.Name = "one"
	r.Spec.Rollout = &addonsv1.ReleaseRollout{Revision: 7}
	r.Status.Release = &addonsv1.ReleaseObservation{Version: "1.2.3", Revision: 1}
	r.Status.State = "InSync"
	report.SetCondition(r, addonsv1.ReadyCondition, metav1.ConditionTrue, addonsv1.ReadyReason, "")
	if change != nil {
		change(r)
	}
	return r
}

// DependingOn returns dependencies on HelmOps.
func DependingOn(names ...string) []addonsv1.Dependency {
	var dependencies []addonsv1.Dependency
	for _, name := range names {
		dependencies = append(dependencies, addonsv1.Dependency{Name: name})
	}
	return dependencies
}

// AwaitDependencies makes a release wait for its dependencies.
func AwaitDependencies(r *addonsv1.HelmOpRelease) {
	report.SetNotReady(r, addonsv1.WaitingForDependenciesReason, "")
}

// ObjectOf returns the object that a reference names.
func ObjectOf(ref inventory.Ref) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind())
	object.SetNamespace(ref.Namespace)
	object.SetName(ref.Name)
	return object
}

// RequestFor returns the request for an object in namespace "default".
func RequestFor(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}
}

// KubeSystem returns the namespace that identifies the management cluster.
func KubeSystem() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "system"}}
}

// UpToDateRelease returns a release in its desired state.
func UpToDateRelease(name string) *addonsv1.HelmOpRelease {
	release := ReleaseFor("default", name, addonsv1.ClusterReference{Name: name})
	release.UID, release.Generation = types.UID(name), 1
	release.Status.Release = &addonsv1.ReleaseObservation{Revision: 1}
	release.Status.ObservedGeneration = 1
	report.SetCondition(release, addonsv1.ClusterReachableCondition, report.True, "Reachable", "")
	report.SetCondition(release, addonsv1.ReadyCondition, report.True, "Ready", "")
	return release
}

// Noon is the current time in tests.
var Noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// ShardView is a client that reads the objects in the cache of a shard's manager, and writes all objects.
type ShardView struct {
	client.Client
	Shard string
}

// Get implements client.Reader.
func (v *ShardView) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	if err := v.Client.Get(ctx, key, obj, options...); err != nil || apiutil.IsOfShard(obj, v.Shard) {
		return err
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

// List implements client.Reader.
func (v *ShardView) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return v.Client.List(ctx, list,
		append(slices.Clone(options), client.MatchingLabelsSelector{Selector: apiutil.ShardSelector(v.Shard)})...)
}

// OfShard returns the labels of a shard; "-" is the label without a value.
func OfShard(shard string) map[string]string {
	switch shard {
	case "":
		return map[string]string{}
	case "-":
		return map[string]string{addonsv1.ShardLabel: ""}
	default:
		return map[string]string{addonsv1.ShardLabel: shard}
	}
}

// ShardStores returns a client with the objects in the cache of a manager, and a client with all objects.
func ShardStores(t *testing.T, shard string, objects ...client.Object) (cached, live client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, addonsv1.AddToScheme,
		coordinationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	all := WithIndexes(fake.NewClientBuilder().WithScheme(scheme))
	own := WithIndexes(fake.NewClientBuilder().WithScheme(scheme))
	all.WithStatusSubresource(&addonsv1.HelmOp{})
	all.WithObjects(KubeSystem())
	own.WithObjects(KubeSystem())
	for _, obj := range objects {
		all.WithObjects(obj.DeepCopyObject().(client.Object))
		if apiutil.IsOfShard(obj, shard) {
			own.WithObjects(obj.DeepCopyObject().(client.Object))
		}
	}
	return own.Build(), all.Build()
}

// ShardedObjects returns a HelmOp, a Cluster, and the release of the HelmOp in the Cluster.
func ShardedObjects(helmOp, cluster, release string) (*addonsv1.HelmOp, *clusterv1.Cluster, *addonsv1.HelmOpRelease) {
	h := &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u", Labels: OfShard(helmOp)},
		Spec: addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}}
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "one", UID: "c", Labels: OfShard(cluster)}}
	r := ReadyRelease("h", func(r *addonsv1.HelmOpRelease) {
		r.ResourceVersion = ""
		maps.Copy(r.Labels, OfShard(release))
	})
	return h, c, r
}

// StaleClient writes at once, and reads an older state from Shown.
type StaleClient struct {
	client.Client
	Shown client.Reader
}

// Get implements client.Reader.
func (l *StaleClient) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption,
) error {
	return l.Shown.Get(ctx, key, obj, options...)
}

// Tagged returns a reference by tag.
func Tagged(tag string) addonsv1.ArtifactReference { return addonsv1.ArtifactReference{Tag: tag} }

// Labelled returns a selector for one label.
func Labelled(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// SpecWithOverrides returns a spec with overlapping overrides and references for several Kubernetes versions.
func SpecWithOverrides() *addonsv1.HelmOpSpec {
	return &addonsv1.HelmOpSpec{
		Source: addonsv1.ArtifactSource{URL: "oci://registry.example/charts/hello", Ref: Tagged("1.0.0")},
		ReleaseOptions: addonsv1.ReleaseOptions{
			Install: &addonsv1.InstallOptions{
				CreateNamespace:   ptr.To(true),
				NamespaceMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"a": "1", "b": "1"}},
			},
			Health: &addonsv1.HealthOptions{Checks: []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "A", Current: "true"}}},
		},
		Overrides: []addonsv1.Override{
			{Name: "edge", ClusterSelector: Labelled("site", "edge"), Ref: ptr.To(Tagged("1.0.0-edge")),
				ReleaseOptions: addonsv1.ReleaseOptions{
					Install: &addonsv1.InstallOptions{
						CreateNamespace:   ptr.To(false),
						Timeout:           &metav1.Duration{Duration: time.Minute},
						NamespaceMetadata: &addonsv1.ObjectMetadata{Labels: map[string]string{"b": "2", "c": "2"}},
					},
					ImpersonateServiceAccountName: "edge",
				}},
			{Name: "gpu", ClusterSelector: Labelled("gpu", "true")},
			{Name: "gpu-edge", ClusterSelector: Labelled("gpu", "true"), Ref: ptr.To(Tagged("1.0.0-gpu")),
				ReleaseOptions: addonsv1.ReleaseOptions{
					Health: &addonsv1.HealthOptions{Mode: addonsv1.HealthModeDisabled,
						Checks: []addonsv1.HealthCheck{{APIVersion: "v1", Kind: "B", Current: "true"}}},
					ImpersonateServiceAccountName: "gpu",
				}},
			{Name: "same", ClusterSelector: Labelled("same", "true"), Ref: ptr.To(Tagged("1.0.0"))},
		},
		RefsByKubernetesVersion: []addonsv1.KubernetesVersionReference{
			{KubernetesVersion: ">=1.35", Ref: Tagged("2.0.0")},
			{KubernetesVersion: ">=1.33 <1.36", Ref: Tagged("1.5.0")},
			{KubernetesVersion: "1.30.x || 1.31.x", Ref: Tagged("1.0.0-edge")},
		},
	}
}

// PublicKey is a public key for the verification of signatures.
const PublicKey = "-----BEGIN PUBLIC KEY-----\n" +
	"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8nXRh950IZbRj8Ra/N9sbqOPZrfM\n" +
	"5/KAQN0/KjHcorm/J5yctVd7iEcnessRQjU917hmKO6JWVGHpDguIyakZA==\n" +
	"-----END PUBLIC KEY-----\n"
