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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/references"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// maxShownUnlabelled is the number of objects that the condition Movable names. There may be an object for each
// Cluster.
const maxShownUnlabelled = 10

// reportMovable sets the condition Movable: whether clusterctl move takes along everything that the HelmOp refers to.
// The manager has no right to write Secrets and ConfigMaps, which belong to users who may share them. So the condition
// has the command that labels them.
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
			// Another condition reports a missing object, where the object is needed.
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
		"clusterctl move takes along everything that the HelmOp refers to")
	return nil
}

// referencesOf returns the objects that a HelmOp refers to, as "<kind>/<name>", including objects for single Clusters.
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
		total, first := len(unlabelled), ""
		if total > maxShownUnlabelled {
			first = fmt.Sprintf(" the first %d of", maxShownUnlabelled)
			unlabelled = unlabelled[:maxShownUnlabelled]
		}
		message := fmt.Sprintf("clusterctl move would leave behind %s without its label; label%s %s: kubectl -n %s "+
			"label %s %s=", plural.Count(total, "object", "objects"), first, plural.Word(total, "it", "them"), namespace,
			strings.Join(unlabelled, " "), clusterctlv1.ClusterctlMoveLabel)
		why = append(why, message)
	}
	if len(accounts) > 0 {
		why = append(why, fmt.Sprintf("clusterctl move does not move ServiceAccounts; create %s in the other management "+
			"cluster", strings.Join(accounts, ", ")))
	}
	return strings.Join(why, "; ")
}

// isMoved reports whether clusterctl move takes an object along: the object has a label of clusterctl move, or an owner
// that is an object of Cluster API or of HelmOp.
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
