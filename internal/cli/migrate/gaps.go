// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// settleGaps updates the gaps of a plan with information from the management cluster. It removes gaps that are
// resolved, and adds gaps for dependencies that would not exist and for Clusters that would be selected, too. It also
// gives the HelmOps the shards of their Clusters. The report and --apply use the same gaps.
func (m *migration) settleGaps(ctx context.Context, plan *migrate.Plan) error {
	for i := range plan.Items {
		if err := m.settleSecrets(ctx, &plan.Items[i]); err != nil {
			return err
		}
	}
	helmOps, err := helmOpsOf(ctx, m.client)
	if err != nil {
		return err
	}
	existing := map[string]*addonsv1.HelmOp{}
	for _, helmOp := range helmOps {
		existing[helmOp.Name] = helmOp
	}
	clusters, err := clusterMetadata(ctx, m.client)
	if err != nil {
		return err
	}
	for i := range plan.Items {
		if item := &plan.Items[i]; item.HelmOp != nil && !isForgotten(item) {
			item.SetShard(clusters, existing[item.HelmOp.Name])
		}
	}
	m.settleMarks(plan, clusters, existing)
	settleDependencies(plan, existing)
	return nil
}

// settleMarks blocks items whose HelmOp does not exist yet and would select further Clusters: an earlier migration has
// left its label there. For a tool that stops managing its releases, the command itself removes such labels, unless
// another HelmOp selects them.
func (m *migration) settleMarks(plan *migrate.Plan, clusters []*metav1.PartialObjectMetadata,
	existing map[string]*addonsv1.HelmOp,
) {
	_, forgets := m.tool.(forgetter)
	for i := range plan.Items {
		item := &plan.Items[i]
		stale := staleMarks(item, clusters)
		if len(stale) == 0 {
			continue
		}
		label := labelOf(item)
		others := selecting(slices.Collect(maps.Values(existing)), label, item)
		if forgets && len(others) == 0 || !forgets && existing[item.HelmOp.Name] != nil {
			continue
		}
		names := make([]string, 0, len(stale))
		for _, mark := range stale {
			names = append(names, mark.Cluster.Name)
		}
		condition := "if no other HelmOp selects the label,"
		if len(others) > 0 {
			condition = fmt.Sprintf("let HelmOp %s select another label, and then", others[0])
		}
		item.Gaps = append(item.Gaps, migrate.Gap{Field: "Clusters", Blocks: true, Text: fmt.Sprintf("%s %s the label of an "+
			"earlier migration, so the new HelmOp would also install the chart there; %s remove the label: kubectl label "+
			"clusters.cluster.x-k8s.io -n %s -l %s %s-", plural.Few(names, fleetview.MaxNamedClusters),
			plural.Word(len(names), "has", "have"), condition, item.HelmOp.Namespace, label, label)})
	}
}

// settleSecrets removes the gaps of an item that require a Secret if the Secret exists.
func (m *migration) settleSecrets(ctx context.Context, item *migrate.Item) error {
	var open []migrate.Gap
	for _, gap := range item.Gaps {
		if gap.Secret != "" {
			secret := &metav1.PartialObjectMetadata{}
			secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
			err := m.client.Get(ctx, client.ObjectKey{Namespace: item.HelmOp.Namespace, Name: gap.Secret}, secret)
			switch {
			case err == nil:
				continue
			case apierrors.IsForbidden(err):
				gap.Text += fmt.Sprintf("; whether the Secret exists is not known: ask for the right to get the Secret %s/%s",
					item.HelmOp.Namespace, gap.Secret)
			case !apierrors.IsNotFound(err):
				return kube.Explain(err)
			}
		}
		open = append(open, gap)
	}
	item.Gaps = open
	return nil
}

// settleDependencies blocks items whose HelmOp depends on a HelmOp that does not exist and is not created: the HelmOp
// would wait forever. existing are the HelmOps of the namespace by their names.
func settleDependencies(plan *migrate.Plan, existing map[string]*addonsv1.HelmOp) {
	for isSettled := false; !isSettled; {
		isSettled = true
		for i := range plan.Items {
			item := &plan.Items[i]
			if item.HelmOp == nil || isForgotten(item) || len(item.Blocked()) > 0 {
				continue
			}
			dependencies := item.HelmOp.Spec.DependsOn
			if helmOp := existing[item.HelmOp.Name]; helmOp != nil &&
				helmOp.Annotations[addonsv1.MigratedFromAnnotation] == item.Origin() {
				dependencies = helmOp.Spec.DependsOn // A user may have corrected it.
			}
			for _, dependency := range dependencies {
				if why := missingDependency(plan, dependency.Name); existing[dependency.Name] == nil && why != "" {
					item.Gaps = append(item.Gaps, migrate.Gap{Field: "spec.dependsOn", Blocks: true, Text: fmt.Sprintf(
						"the release would wait for HelmOp %s/%s, which does not exist; %s", item.HelmOp.Namespace, dependency.Name,
						why)})
					isSettled = false // Other items may depend on this item.
				}
			}
		}
	}
}

// missingDependency returns the advice about a HelmOp that a plan does not create; empty if the plan creates it.
func missingDependency(plan *migrate.Plan, name string) string {
	at := slices.IndexFunc(plan.Items, func(item migrate.Item) bool {
		return item.HelmOp != nil && item.HelmOp.Name == name
	})
	switch {
	case at < 0:
		return "migrate its object first, or at the same time"
	case len(plan.Items[at].Blocked()) > 0:
		return "solve what stops its migration first"
	default:
		return ""
	}
}
