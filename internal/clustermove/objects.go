// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermove

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
)

// definitionTimeout is the limit for a read of a CustomResourceDefinition. The first read waits until the metadata of
// all CustomResourceDefinitions are in the cache.
const definitionTimeout = 10 * time.Second

// MovedObjects returns the objects of a release in this management cluster that clusterctl move has moved to another
// management cluster, in a fixed order with Clusters first. The mark of clusterctl move alone proves nothing, because
// users can write it. So an object counts only if clusterctl move moves and deletes objects like it. The client must
// have the metadata of CustomResourceDefinitions in its cache. It is asked only about marked objects.
func MovedObjects(ctx context.Context, c client.Client, snapshot *objectwatch.Snapshot) ([]inventory.Ref, error) {
	if snapshot == nil {
		return nil, nil
	}
	var moved []inventory.Ref
	definitions := map[schema.GroupKind]map[string]string{}
	for ref, state := range snapshot.Objects {
		if !mayBeMoved(ref, state.MoveMark) {
			continue
		}
		kind := schema.GroupKind{Group: ref.Group, Kind: ref.Kind}
		if _, isRead := definitions[kind]; !isRead && !isBuiltIn(ref) {
			var err error
			if definitions[kind], err = definitionLabels(ctx, c, kind); err != nil {
				return nil, err
			}
		}
		if isBuiltIn(ref) || movesKind(ref, state.MoveMark, definitions[kind]) {
			moved = append(moved, ref)
		}
	}
	inventory.Sort(moved)
	// The other objects are mostly parts of a Cluster, so a message names Clusters first.
	slices.SortStableFunc(moved, func(a, b inventory.Ref) int { return cmp.Compare(clusterRank(a), clusterRank(b)) })
	return moved, nil
}

// mayBeMoved reports whether clusterctl move may have moved an object. clusterctl move marks and deletes no
// cluster-scoped objects. The only built-in kinds that it moves are Secret and ConfigMap.
func mayBeMoved(ref inventory.Ref, mark objectwatch.MoveMark) bool {
	switch {
	case mark == objectwatch.Unmarked || ref.Namespace == "":
		return false
	case !isBuiltIn(ref):
		return true
	default:
		return mark == objectwatch.MarkedMovable && ref.Group == corev1.GroupName &&
			(ref.Kind == apiutil.KindSecret || ref.Kind == apiutil.KindConfigMap)
	}
}

// isBuiltIn reports whether Kubernetes itself serves the kind of an object.
func isBuiltIn(ref inventory.Ref) bool { return kubescheme.Scheme.IsGroupRegistered(ref.Group) }

// movesKind reports whether clusterctl move has moved a custom resource, from the labels of its
// CustomResourceDefinition. clusterctl move only finds kinds with the label of clusterctl. It moves a found object for
// a label of its kind, or for a label or an owner of the object. HelmOp does not see each owner of a Cluster API object
// in time: a re-created Cluster is worse than a pause, so the mark of such an object is enough.
func movesKind(ref inventory.Ref, mark objectwatch.MoveMark, labels map[string]string) bool {
	has := func(label string) bool {
		_, ok := labels[label]
		return ok
	}
	return has(clusterctlv1.ClusterctlLabel) &&
		(inventory.IsClusterAPI(ref.Group) || mark == objectwatch.MarkedMovable ||
			has(clusterctlv1.ClusterctlMoveLabel) || has(clusterctlv1.ClusterctlMoveHierarchyLabel))
}

// definitionLabels returns the labels of the CustomResourceDefinition of a kind; none if the kind has no definition.
func definitionLabels(ctx context.Context, c client.Client, kind schema.GroupKind) (map[string]string, error) {
	mapping, err := c.RESTMapper().RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up the kind %s: %w", kind, err)
	}
	ctx, cancel := context.WithTimeout(ctx, definitionTimeout)
	defer cancel()
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: mapping.Resource.GroupResource().String()}
	if err := c.Get(ctx, key, definition); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the CustomResourceDefinition %s: %w", key.Name, err)
	}
	return definition.Labels, nil
}

// clusterRank returns the rank of an object in messages.
func clusterRank(ref inventory.Ref) int {
	if ref.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
		return 0
	}
	return 1
}
