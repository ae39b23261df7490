// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestCachedMetadataIsSmall checks that the cache drops everything from Secrets and ConfigMaps that users can make
// large: kubectl apply stores the whole content in an annotation. Whether clusterctl move moves the object stays.
func TestCachedMetadataIsSmall(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{apiutil.KindSecret, apiutil.KindConfigMap} {
		options := cacheOptions(&Options{})
		transform := options.DefaultTransform
		for object, by := range options.ByObject {
			if object.GetObjectKind().GroupVersionKind() == apiutil.PartialOf(kind).GroupVersionKind() {
				transform = by.Transform
			}
		}
		for name, tc := range map[string]struct {
			label, owner string
			moves        bool
		}{
			"another object":     {"a", "apps/v1", false},
			"a label":            {clusterctlv1.ClusterctlMoveHierarchyLabel, "apps/v1", true},
			"an owner":           {"a", clusterv1.GroupVersion.String(), true},
			"an owner of HelmOp": {"a", "addons.cluster.x-k8s.io/v1alpha1", true},
		} {
			object, large := apiutil.PartialOf(kind), strings.Repeat("x", 1<<10)
			object.Namespace, object.Name, object.UID, object.ResourceVersion = "a", "b", "c", "5"
			object.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": large}
			object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: large}}
			object.Labels = map[string]string{tc.label: large}
			object.OwnerReferences = []metav1.OwnerReference{{APIVersion: tc.owner, Kind: large, Name: large}}
			object.Finalizers = []string{large}
			cached, err := transform(object)
			if err != nil {
				t.Fatal(err)
			}
			got := cached.(*metav1.PartialObjectMetadata)
			if content, err := got.Marshal(); err != nil || len(content) > 100 {
				t.Errorf("%s %s: the cache has %v, %v", kind, name, got, err)
			}
			if got.GroupVersionKind() != object.GroupVersionKind() || got.Namespace != "a" || got.Name != "b" ||
				got.UID != "c" || got.ResourceVersion != "5" || inventory.MovesWithClusters(got) != tc.moves {
				t.Errorf("%s %s: the cached metadata is %v", kind, name, got)
			}
		}
	}
}
