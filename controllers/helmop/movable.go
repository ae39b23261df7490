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

// maxShownUnlabelled is how many objects the condition Movable names. There may be one for each Cluster.
const maxShownUnlabelled = 10

// reportMovable reports whether clusterctl move takes along what the HelmOp refers to. Secrets and ConfigMaps belong to
// their authors, who may share them, and the manager may not write them. So the condition says how to label them.
func (r *Reconciler) reportMovable(ctx context.Context, scope *helmOpScope) error {
	helmOp := scope.helmOp
	referenced := referencesOf(scope)
	if len(referenced) == 0 {
		conditions.Delete(helmOp, addonsv1.MovableCondition)
		return nil
	}
	var unlabelled, accounts []string
	for _, reference := range referenced {
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
			unlabelled = append(unlabelled, strings.ToLower(kind)+"/"+name)
		}
	}
	if why := whyNotMovable(helmOp.Namespace, unlabelled, accounts); why != "" {
		report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionFalse, addonsv1.ReferencesNotMovedReason, why)
		return nil
	}
	report.SetCondition(helmOp, addonsv1.MovableCondition, metav1.ConditionTrue, addonsv1.MovableReason,
		"clusterctl move takes along all that the HelmOp refers to")
	return nil
}

// referencesOf are the objects that a HelmOp refers to, as "<kind>/<name>", those of single Clusters included.
func referencesOf(scope *helmOpScope) []string {
	helmOp := scope.helmOp
	referenced := references.Of(helmOp)
	if namespaces := helmOp.Spec.ClusterNamespaces; namespaces != nil {
		referenced = append(referenced, apiutil.KindServiceAccount+"/"+namespaces.AuthorizationServiceAccountName)
	}
	if management := helmOp.Spec.ManagementCluster; management != nil {
		referenced = append(referenced, apiutil.KindServiceAccount+"/"+management.ImpersonateServiceAccountName)
	}
	for _, c := range scope.clusters {
		for _, reference := range c.references {
			referenced = append(referenced, reference.Kind+"/"+reference.Name)
		}
	}
	slices.Sort(referenced)
	return slices.Compact(referenced)
}

func whyNotMovable(namespace string, unlabelled, accounts []string) string {
	var why []string
	if len(unlabelled) > 0 {
		what := "what is not labelled for it"
		if total := len(unlabelled); total > maxShownUnlabelled {
			what = fmt.Sprintf("%d objects that are not labelled for it, of which these are %d", total, maxShownUnlabelled)
			unlabelled = unlabelled[:maxShownUnlabelled]
		}
		message := fmt.Sprintf("clusterctl move would leave behind %s: kubectl -n %s label %s %s=",
			what, namespace, strings.Join(unlabelled, " "), clusterctlv1.ClusterctlMoveLabel)
		why = append(why, message)
	}
	if len(accounts) > 0 {
		why = append(why, "clusterctl moves no service accounts, create them in the other management cluster: "+
			strings.Join(accounts, ", "))
	}
	return strings.Join(why, "; ")
}

// isMoved tells whether clusterctl move takes an object along: it is labelled for it, or belongs to an object of
// Cluster API or ours.
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
