// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmop

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// reportMovable tells whether clusterctl move takes along what the HelmOp refers to. Secrets and ConfigMaps belong to their authors, who may
// share them, and this program may not write them: it is told how to label them.
func (r *Reconciler) reportMovable(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	references := references.Of(helmOp)
	if namespaces := helmOp.Spec.ClusterNamespaces; namespaces != nil {
		references = append(references, apiutil.KindServiceAccount+"/"+namespaces.AuthorizationServiceAccountName)
	}
	if management := helmOp.Spec.ManagementCluster; management != nil {
		references = append(references, apiutil.KindServiceAccount+"/"+management.ImpersonateServiceAccountName)
	}
	slices.Sort(references)
	var unlabelled, accounts []string
	for _, reference := range slices.Compact(references) {
		kind, name, _ := strings.Cut(reference, "/")
		if kind == apiutil.KindServiceAccount {
			accounts = append(accounts, name)
			continue
		}
		partial := apiutil.PartialOf(kind)
		err := r.references.Metadata.Get(ctx, client.ObjectKey{Namespace: helmOp.Namespace, Name: name}, partial)
		switch {
		case apierrors.IsNotFound(err):
			// Whoever needs it says so.
		case err != nil:
			return fmt.Errorf("reading %s %s/%s: %w", kind, helmOp.Namespace, name, err)
		case !isMoved(partial):
			unlabelled = append(unlabelled, strings.ToLower(reference))
		}
	}
	if len(references) == 0 {
		conditions.Delete(helmOp, addonsv1.MovableCondition)
		return nil
	}
	if why := whyNotMovable(helmOp.Namespace, unlabelled, accounts); why != "" {
		report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionFalse, addonsv1.ReferencesNotMovedReason, why)
		return nil
	}
	report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionTrue, addonsv1.MovableReason, "clusterctl move takes along all that the HelmOp refers to")
	return nil
}

func whyNotMovable(namespace string, unlabelled, accounts []string) string {
	var why []string
	if len(unlabelled) > 0 {
		why = append(why, fmt.Sprintf("clusterctl move would leave behind what is not labelled for it: kubectl -n %s label %s %s=",
			namespace, strings.Join(unlabelled, " "), clusterctlv1.ClusterctlMoveLabel))
	}
	if len(accounts) > 0 {
		why = append(why, "clusterctl moves no service accounts, create them in the other management cluster: "+strings.Join(accounts, ", "))
	}
	return strings.Join(why, "; ")
}

// isMoved tells whether clusterctl move takes an object along: it is labelled for it, or belongs to an object of Cluster API or ours.
func isMoved(obj client.Object) bool {
	for _, label := range []string{clusterctlv1.ClusterctlMoveLabel, clusterctlv1.ClusterctlMoveHierarchyLabel} {
		if _, ok := obj.GetLabels()[label]; ok {
			return true
		}
	}
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		return group == "cluster.x-k8s.io" || strings.HasSuffix(group, ".cluster.x-k8s.io")
	})
}
