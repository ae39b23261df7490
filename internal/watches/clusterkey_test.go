// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
)

func TestClusterKeyOfReleaseInOtherNamespace(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ref        addonsv1.ClusterReference
		key, title string
	}{
		"its own, not named": {addonsv1.ClusterReference{Name: "one"}, "platform/one", "one"},
		"its own, named":     {addonsv1.ClusterReference{Namespace: "platform", Name: "one"}, "platform/one", "one"},
		"another":            {addonsv1.ClusterReference{Namespace: "team", Name: "one"}, "team/one", "team/one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := controllertest.ReleaseFor("platform", "it", test.ref)
			if key, title := apiutil.ClusterKey(release).String(), apiutil.ClusterTitle(release); key != test.key ||
				title != test.title {
				t.Errorf("the Cluster has the key %q and the title %q, want %q and %q", key, title, test.key, test.title)
			}
		})
	}
}

func TestReleasesOfClusterAreFoundInAllNamespaces(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&addonsv1.HelmOpRelease{}, apiutil.ClusterIndex,
		apiutil.ClustersOfRelease).WithObjects(
		controllertest.ReleaseFor("team", "its own", addonsv1.ClusterReference{Name: "one"}),
		controllertest.ReleaseFor("platform", "of another", addonsv1.ClusterReference{Namespace: "team", Name: "one"}),
		controllertest.ReleaseFor("platform", "of a namesake", addonsv1.ClusterReference{Name: "one"}),
	).Build()

	var found []string
	for _, child := range apiutil.ChildrenOfCluster(t.Context(), reader,
		client.ObjectKey{Namespace: "team", Name: "one"}) {
		found = append(found, child.Name)
	}
	slices.Sort(found)
	if want := []string{"its own", "of another"}; !slices.Equal(found, want) {
		t.Errorf("found the releases %q, want %q", found, want)
	}
}
