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

	lru "github.com/hashicorp/golang-lru/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// objectReadTimeout bounds the first read of a Cluster's objects, which waits until the CustomResourceDefinitions are
// in the cache.
const objectReadTimeout = 10 * time.Second

// KindRetry is the wait before a kind is read again that is being read for the first time.
const KindRetry = time.Second

// maxTypedClusters bounds the Clusters that are kept in the types of Cluster API, some 5 kB each.
const maxTypedClusters = 1 << 14

// Reader reads what templates see of a Cluster. What it returns is shared with the cache, and must not be changed: with
// a thousand Clusters, copying would be most of what a pass over a HelmOp takes.
type Reader struct {
	client client.Reader

	// clusters are the Clusters in the types of Cluster API, by UID.
	clusters *lru.Cache[types.UID, *clusterv1.Cluster]

	mu sync.Mutex
	// versions are those in which kinds are read, and since when.
	versions map[schema.GroupKind]knownVersion
}

// versionMemory is for how long a kind is read in the same version. Which one fits the contract of Cluster API, the
// labels of its CustomResourceDefinition say; looking that up for each object takes several times as long as to read
// it.
const versionMemory = 30 * time.Second

type knownVersion struct {
	version schema.GroupVersion
	since   time.Time
}

// NewReader reads by a reader that waits for no kind, see kindcache.
func NewReader(reader client.Reader) *Reader {
	clusters, _ := lru.New[types.UID, *clusterv1.Cluster](maxTypedClusters) // It fails only if the size is not positive.
	return &Reader{client: sharingReader{reader}, clusters: clusters, versions: map[schema.GroupKind]knownVersion{}}
}

// get reads an object that a Cluster refers to.
func (r *Reader) get(ctx context.Context, ref clusterv1.ContractVersionedObjectReference,
	namespace string,
) (*unstructured.Unstructured, error) {
	kind := schema.GroupKind{Group: ref.APIGroup, Kind: ref.Kind}
	r.mu.Lock()
	known, ok := r.versions[kind]
	r.mu.Unlock()
	if ok && time.Since(known.since) < versionMemory {
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

// sharingReader gets what the cache has, and no copy of it.
type sharingReader struct{ client.Reader }

// Get implements client.Reader.
func (r sharingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object,
	options ...client.GetOption,
) error {
	return r.Reader.Get(ctx, key, obj, append(slices.Clip(options), client.UnsafeDisableDeepCopy)...)
}

// Typed is [TypedCluster] for whoever does not change what it returns. A Cluster that is as it was is not converted
// again.
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

// Objects is what templates see of a Cluster, and a version that changes whenever it does.
type Objects struct {
	Data    templating.Objects
	Version []string
	// Watched are the objects whose kinds the caller may want to watch.
	Watched []*unstructured.Unstructured
}

// Read returns the Cluster and the objects that it refers to. An object that is referred to and missing is an error:
// rendering without it would install something else than what is meant.
func (r *Reader) Read(ctx context.Context, u *unstructured.Unstructured, cluster *clusterv1.Cluster) (*Objects, error) {
	ctx, cancel := context.WithTimeout(ctx, objectReadTimeout)
	defer cancel()

	if apiutil.IsManagement(u) {
		// It stands for no Cluster that templates could see.
		return &Objects{}, nil
	}
	objects := &Objects{Data: templating.Objects{Cluster: u.Object}}
	objects.sees(u)
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

// ReadRef reads an object that a Cluster refers to, for a role such as "control plane".
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
	objects.sees(obj)
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
	objects.sees(class)
	return class.Object, nil
}

func (o *Objects) sees(obj *unstructured.Unstructured) {
	o.Version = append(o.Version, string(obj.GetUID()), obj.GetResourceVersion())
	if obj.GetKind() != "Cluster" {
		o.Watched = append(o.Watched, obj)
	}
}

func objectError(subject string, err error) error {
	var unreadable *kindcache.UnreadableError
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the %s does not exist, but the Cluster refers to it; create it or correct the reference", subject)
	case errors.As(err, &unreadable):
		return fmt.Errorf("the %s cannot be read: %s; allow the manager to list and watch its kind with a ClusterRole"+
			" with the label addons.cluster.x-k8s.io/aggregate-to-helmop-manager: \"true\"", subject, unreadable.Reason)
	default:
		return fmt.Errorf("reading the %s: %w", subject, err)
	}
}
