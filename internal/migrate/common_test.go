// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// noUninstallation is the gap of a tool that uninstalls failed installations, without its field.
const noUninstallation = ": with spec.install.takeOwnership, which the migration needs, HelmOp does not uninstall a " +
	"failed installation, and only retries it; to change this for new Clusters, remove spec.install.takeOwnership after " +
	"the migration"

func TestSelectsLabel(t *testing.T) {
	const label = "migrated.addons.cluster.x-k8s.io/calico"
	expression := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: label, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	for name, test := range map[string]struct {
		spec addonsv1.HelmOpSpec
		want bool
	}{
		"management cluster": {addonsv1.HelmOpSpec{}, false},
		"all Clusters":       {addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{}}, false},
		"a longer label": {addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{label + "-2": "true"}}}, false},
		"the label": {addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{label: "other"}}}, true},
		"an expression": {addonsv1.HelmOpSpec{ClusterSelector: &expression}, true},
		"an override": {addonsv1.HelmOpSpec{ClusterSelector: &metav1.LabelSelector{},
			Overrides: []addonsv1.Override{{}, {ClusterSelector: expression}}}, true},
	} {
		if got := SelectsLabel(&addonsv1.HelmOp{Spec: test.spec}, label); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
