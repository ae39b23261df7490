// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/brieflru"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// objectReadTimeout is the limit for the first read of the objects of a Cluster: this read waits until the
// CustomResourceDefinitions are in the cache.
const objectReadTimeout = 10 * time.Second

// KindRetry is the wait before the next read of a kind whose first read has not ended.
const KindRetry = time.Second

// maxTypedClusters is the number of Clusters in the cache of typed Clusters. Each takes about 5 kB. A conversion takes
// about 30 µs, so it is enough to keep the Clusters for typedKept: the passes of a rollout follow each other faster.
const (
	maxTypedClusters = 1 << 14
	typedKept        = 15 * time.Second
)

// Reader reads the objects of a Cluster that templates can use. The results are shared with the cache: do not change
// them. With a thousand Clusters, copies would take most of the time of a pass over a HelmOp.
type Reader struct {
	client client.Reader

	// live reads from the API server what the cache does not have, and plans caches what live has read.
	live  client.Reader
	plans schemaFact

	// clusters caches the Clusters in the types of Cluster API for a short time, by UID.
	clusters *brieflru.Cache[types.UID, *clusterv1.Cluster]

	mu sync.Mutex
	// versions caches the API versions in which kinds are read, with the times of their lookups.
	versions map[schema.GroupKind]knownVersion
}

// versionTTL is the time for which the API version of a kind is cached. The labels of the CustomResourceDefinition name
// the version that fits the contract of Cluster API. Looking up the version takes several times as long as reading the
// object.
const versionTTL = 30 * time.Second

type knownVersion struct {
	version schema.GroupVersion
	since   time.Time
}

// NewReader returns a Reader that uses a client which does not wait for the informers of kinds: see kindcache. live
// reads from the API server.
func NewReader(reader, live client.Reader) *Reader {
	return &Reader{client: sharingReader{reader}, live: live,
		clusters: brieflru.New[types.UID, *clusterv1.Cluster](maxTypedClusters, typedKept),
		versions: map[schema.GroupKind]knownVersion{}}
}

// get reads an object that a Cluster refers to.
func (r *Reader) get(ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
	namespace string,
) (*unstructured.Unstructured, error) {
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	r.mu.Lock()
	known, ok := r.versions[kind]
	r.mu.Unlock()
	if ok && time.Since(known.since) < versionTTL {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(known.version.WithKind(ref.Kind))
		return obj, r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, obj)
	}
	obj, err := external.GetObjectFromContractVersionedRef(ctx, r.client, ref, namespace)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[kind] = knownVersion{version: obj.GroupVersionKind().GroupVersion(), since: time.Now()}
	return obj, nil
}

// sharingReader returns the objects of the cache without copies.
type sharingReader struct{ client.Reader }

// Get implements client.Reader.
func (r sharingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	return r.Reader.Get(ctx, key, obj, append(slices.Clip(options), client.UnsafeDisableDeepCopy)...)
}

// Typed is [apiutil.TypedCluster] with a cache: within typedKept, a Cluster is converted only after a change. The
// result is shared: do not change it.
func (r *Reader) Typed(u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	if known, ok := r.clusters.Get(u.GetUID()); ok && known.ResourceVersion == u.GetResourceVersion() {
		return known, nil
	}
	cluster, err := apiutil.TypedCluster(u)
	if err == nil && u.GetUID() != "" {
		r.clusters.Add(u.GetUID(), cluster)
	}
	return cluster, err
}

// Objects are the objects of a Cluster that templates can use.
type Objects struct {
	Data templating.Objects
	// Version changes whenever one of the objects changes, or is read in another API version.
	Version []string
	// Watched are the objects that the Cluster refers to, so that the caller can watch their kinds.
	Watched []*unstructured.Unstructured
}

// Read returns the Cluster and the objects that it refers to. A missing object is an error: HelmOp would otherwise
// install something that the user did not intend.
func (r *Reader) Read(ctx context.Context, u *unstructured.Unstructured, cluster *clusterv1.Cluster) (*Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, objectReadTimeout)
	defer cancel()

	if apiutil.IsManagement(u) {
		// Templates have no Cluster object for the management cluster.
		return &Objects{}, nil
	}
	objects := &Objects{Data: templating.Objects{Cluster: u.Object}}
	objects.add(u)
	var err error
	if objects.Data.ControlPlane, err = r.ReadRef(ctx, objects, "control-plane", cluster.Namespace,
		cluster.Spec.ControlPlaneRef); err != nil {
		return nil, err
	}
	if objects.Data.InfrastructureCluster,
		err = r.ReadRef(ctx, objects, "infrastructure", cluster.Namespace, cluster.Spec.InfrastructureRef); err != nil {
		return nil, err
	}
	if objects.Data.ClusterClass, err = r.readClass(ctx, objects, cluster); err != nil {
		return nil, err
	}
	return objects, nil
}

// ReadRef reads an object that a Cluster refers to. Errors name its role, for example "control-plane".
func (r *Reader) ReadRef(ctx context.Context, objects *Objects, role, namespace string,
	ref clusterv1.ContractVersionedObjectReference,
) (map[string]any, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	subject := func() string {
		return fmt.Sprintf("%s object %s.%s %s/%s", role, ref.Kind, ref.APIGroup, namespace, ref.Name)
	}
	obj, err := r.get(ctx, ref, namespace)
	if err != nil {
		return nil, objectError(subject(), err)
	}
	if obj.GetNamespace() != namespace {
		// Who may create Clusters could otherwise read cluster-scoped objects of others.
		return nil, fmt.Errorf("the Cluster refers to the %s, but its kind is cluster-scoped, and Cluster API requires a "+
			"namespaced kind; correct the reference", subject())
	}
	objects.add(obj)
	return obj.Object, nil
}

func (r *Reader) readClass(ctx context.Context, objects *Objects, cluster *clusterv1.Cluster) (map[string]any, error) {
	if !cluster.Spec.Topology.IsDefined() {
		return nil, nil
	}
	key := cluster.GetClassKey()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterClass"))
	if err := r.client.Get(ctx, key, class); err != nil {
		return nil, objectError("ClusterClass "+key.String(), err)
	}
	objects.add(class)
	return class.Object, nil
}

// add records the version of an object, and that its kind can be watched. An object has the same resource version in
// each API version, but other fields.
func (o *Objects) add(obj *unstructured.Unstructured) {
	o.Version = append(o.Version, obj.GetAPIVersion(), string(obj.GetUID()), obj.GetResourceVersion())
	if obj.GetKind() != "Cluster" {
		o.Watched = append(o.Watched, obj)
	}
}

func objectError(subject string, err error) error {
	var unreadable *kindcache.UnreadableError
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the Cluster refers to the %s, which does not exist; create it or correct the reference", subject)
	case errors.As(err, &unreadable):
		return fmt.Errorf("the %s cannot be read: %s; allow the manager to list and watch its kind with a ClusterRole"+
			" with the label addons.cluster.x-k8s.io/aggregate-to-helmop-manager: \"true\"", subject, unreadable.Reason)
	default:
		return fmt.Errorf("reading the %s: %w", subject, err)
	}
}
