/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/kindcache"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/templating"
)

// objectReadTimeout bounds the first read of a Cluster's objects, which waits until the CustomResourceDefinitions are in the cache.
const objectReadTimeout = 10 * time.Second

// kindRetry is the wait before a kind is read again that is being read for the first time.
const kindRetry = time.Second

// newCluster is an empty Cluster to read into. Clusters are read as the API server serves them, not as the types of the
// Cluster API version that this program was built with: templates see the fields that users see.
func newCluster() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	return u
}

func newClusterList() *unstructured.UnstructuredList {
	u := &unstructured.UnstructuredList{}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterList"))
	return u
}

// typedCluster is the Cluster in the types of Cluster API, for decisions.
func typedCluster(u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	cluster := &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, cluster); err != nil {
		return nil, fmt.Errorf("reading Cluster %s/%s: %w", u.GetNamespace(), u.GetName(), err)
	}
	return cluster, nil
}

// isInitialized tells whether the control plane of a Cluster can be served. Nodes need not be ready: it may be our
// chart, a CNI for example, that makes them so.
func isInitialized(cluster *clusterv1.Cluster) bool {
	return ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// isClusterPaused tells whether nothing may be done for a Cluster. While its deletion is held, spec.paused is part of that.
func isClusterPaused(cluster *clusterv1.Cluster) bool {
	if holdOf(cluster).isOn() {
		return annotations.HasPaused(cluster)
	}
	return annotations.IsPaused(cluster, cluster)
}

// maxTypedClusters bounds the Clusters that are kept in the types of Cluster API, some 5 kB each.
const maxTypedClusters = 1 << 14

// objectReader reads what templates see of a Cluster. What it returns is shared with the cache, and must not be changed: with a thousand
// Clusters, copying would be most of what a pass over a HelmOp takes.
type objectReader struct {
	client client.Reader

	// clusters are the Clusters in the types of Cluster API, by UID.
	clusters *lru.Cache

	mu sync.Mutex
	// versions are those in which kinds are read, and since when.
	versions map[schema.GroupKind]knownVersion
}

// versionMemory is for how long a kind is read in the same version. Which one fits the contract of Cluster API, the labels of its
// CustomResourceDefinition say; looking that up for each object takes several times as long as to read it.
const versionMemory = 30 * time.Second

type knownVersion struct {
	version schema.GroupVersion
	since   time.Time
}

// newObjectReader reads by a reader that waits for no kind, see kindcache.
func newObjectReader(reader client.Reader) *objectReader {
	return &objectReader{client: sharingReader{reader}, clusters: lru.New(maxTypedClusters), versions: map[schema.GroupKind]knownVersion{}}
}

// get reads an object that a Cluster refers to.
func (r *objectReader) get(ctx context.Context, ref clusterv1.ContractVersionedObjectReference, namespace string) (*unstructured.Unstructured, error) {
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
func (r sharingReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	return r.Reader.Get(ctx, key, obj, append(slices.Clip(options), client.UnsafeDisableDeepCopy)...)
}

// typed is [typedCluster] for whoever does not change what it returns. A Cluster that is as it was is not converted again.
func (r *objectReader) typed(u *unstructured.Unstructured) (*clusterv1.Cluster, error) {
	if known, ok := r.clusters.Get(u.GetUID()); ok {
		if cluster := known.(*clusterv1.Cluster); cluster.ResourceVersion == u.GetResourceVersion() {
			return cluster, nil
		}
	}
	cluster, err := typedCluster(u)
	if err == nil && u.GetUID() != "" {
		r.clusters.Add(u.GetUID(), cluster)
	}
	return cluster, err
}

// clusterObjects is what templates see of a Cluster, and a version that changes whenever it does.
type clusterObjects struct {
	data    templating.Objects
	version []string
	// watched are the objects whose kinds the caller may want to watch.
	watched []*unstructured.Unstructured
}

// read returns the Cluster and the objects that it refers to. An object that is referred to and missing is an error:
// rendering without it would install something else than what is meant.
func (r *objectReader) read(ctx context.Context, u *unstructured.Unstructured, cluster *clusterv1.Cluster) (*clusterObjects, error) {
	ctx, cancel := context.WithTimeout(ctx, objectReadTimeout)
	defer cancel()

	if isManagement(u) {
		// It stands for no Cluster that templates could see.
		return &clusterObjects{}, nil
	}
	objects := &clusterObjects{data: templating.Objects{Cluster: u.Object}}
	objects.sees(u)
	var err error
	if objects.data.ControlPlane, err = r.readRef(ctx, objects, "control-plane", cluster.Namespace, cluster.Spec.ControlPlaneRef); err != nil {
		return nil, err
	}
	if objects.data.InfrastructureCluster, err = r.readRef(ctx, objects, "infrastructure", cluster.Namespace, cluster.Spec.InfrastructureRef); err != nil {
		return nil, err
	}
	if objects.data.ClusterClass, err = r.readClass(ctx, objects, cluster); err != nil {
		return nil, err
	}
	return objects, nil
}

func (r *objectReader) readRef(ctx context.Context, objects *clusterObjects, role, namespace string,
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

func (r *objectReader) readClass(ctx context.Context, objects *clusterObjects, cluster *clusterv1.Cluster) (map[string]any, error) {
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

func (o *clusterObjects) sees(obj *unstructured.Unstructured) {
	o.version = append(o.version, string(obj.GetUID()), obj.GetResourceVersion())
	if obj.GetKind() != "Cluster" {
		o.watched = append(o.watched, obj)
	}
}

func objectError(subject string, err error) error {
	var unreadable *kindcache.UnreadableError
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the %s does not exist: the Cluster refers to it, create it or correct the reference", subject)
	case errors.As(err, &unreadable):
		return fmt.Errorf("the %s cannot be read: %s; give the manager list and watch on its kind by a ClusterRole"+
			" with the label addons.cluster.x-k8s.io/aggregate-to-helmop-manager: \"true\"", subject, unreadable.Reason)
	default:
		return fmt.Errorf("reading the %s: %w", subject, err)
	}
}
