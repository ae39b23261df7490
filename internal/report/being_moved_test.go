// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// TestClustersBeingMoved checks the condition ClusterBeingMoved: its command must be complete, and the condition must
// disappear.
func TestClustersBeingMoved(t *testing.T) {
	t.Parallel()
	const annotation = "clusterctl.cluster.x-k8s.io/delete-for-move"
	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf("c%03d", n)+strings.Repeat("x", 59))
	}
	for name, tc := range map[string]struct {
		names       []string
		what, which string
	}{
		"one": {names: []string{"one"}, which: "one",
			what: "HelmOp begins no hold of Cluster one, and does not change its conditions: its annotation "},
		"two": {names: []string{"one", "two"}, which: "one two",
			what: "HelmOp begins no hold of 2 Clusters, and does not change their conditions: their annotation "},
		"many": {names: many, which: strings.Join(many[:5], " "), what: "HelmOp begins no hold of 1000 Clusters"},
	} {
		release := &addonsv1.HelmOpRelease{}
		release.Namespace = strings.Repeat("n", 63)
		ClustersBeingMoved(release, tc.names)
		got := conditions.Get(release, addonsv1.ClusterBeingMovedCondition)
		if got == nil || got.Status != True || got.Reason != addonsv1.BeingMovedReason ||
			!strings.HasPrefix(got.Message, tc.what) || !strings.HasSuffix(got.Message,
			": kubectl -n "+release.Namespace+" annotate clusters.cluster.x-k8s.io "+tc.which+" "+annotation+"-") {
			t.Errorf("%s: %+v", name, got)
		}
		ClustersBeingMoved(release, nil)
		if conditions.Has(release, addonsv1.ClusterBeingMovedCondition) {
			t.Errorf("%s: the condition stays", name)
		}
	}
}
