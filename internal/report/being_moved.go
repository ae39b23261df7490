// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// IsBeingMoved reports whether clusterctl move is moving an object to another management cluster. clusterctl move then
// deletes the object in this management cluster. The release stays in its cluster and belongs to the object in the
// other management cluster.
func IsBeingMoved(obj client.Object) bool {
	_, moved := obj.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return moved
}

// movable is an object of a kind that clusterctl move moves.
type movable interface {
	client.Object
	conditions.Setter
}

// BeingMoved sets the condition Paused of an object that clusterctl move is moving, and writes the object. The message
// has the command that ends the pause if no move is running: an interrupted move or a user may have left the annotation
// of a move. If Ready is True for an earlier generation, it becomes Unknown: HelmOp does not apply the new spec.
func BeingMoved(ctx context.Context, c client.Client, obj movable, resource string, owned []string) error {
	before := copied(obj)
	message := fmt.Sprintf("This object is not reconciled: its annotation %s means that clusterctl move is moving it to "+
		"another management cluster. If no move is running, and no other management cluster has the object, remove the "+
		"annotation: kubectl -n %s annotate %s %s %s-",
		clusterctlv1.DeleteForMoveAnnotation, obj.GetNamespace(), resource, obj.GetName(),
		clusterctlv1.DeleteForMoveAnnotation)
	SetCondition(obj, addonsv1.PausedCondition, True, addonsv1.BeingMovedReason, message)
	if isOutdated(obj, addonsv1.ReadyCondition) {
		SetCondition(obj, addonsv1.ReadyCondition, metav1.ConditionUnknown, addonsv1.BeingMovedReason, message)
	}
	Deleting(obj)
	return client.IgnoreNotFound(WriteObject(ctx, c, before, obj, owned))
}

// maxNamedMoves is the number of Clusters that the condition ClusterBeingMoved names, so that its command is complete.
const maxNamedMoves = 5

// ClustersBeingMoved sets the condition ClusterBeingMoved of an object from the names of its Clusters with the
// annotation of clusterctl move. Without names, it removes the condition. Only holds and conditions of Clusters in the
// namespace of the object belong to the object, so the Clusters must be in this namespace.
func ClustersBeingMoved(obj movable, names []string) {
	if len(names) == 0 {
		conditions.Delete(obj, addonsv1.ClusterBeingMovedCondition)
		return
	}
	SetCondition(obj, addonsv1.ClusterBeingMovedCondition, True, addonsv1.BeingMovedReason,
		ClustersBeingMovedMessage(obj.GetNamespace(), names))
}

// ClustersBeingMovedMessage returns what HelmOp does not do for Clusters of a namespace with the annotation of
// clusterctl move, and the command that removes the annotation if no move is running.
func ClustersBeingMovedMessage(namespace string, names []string) string {
	n, which, its, them, from := len(names), "Cluster "+names[0], "its", "it", ""
	if n > 1 {
		which, its, them = plural.Count(n, "Cluster", "Clusters"), "their", "them"
	}
	if n > maxNamedMoves {
		names, from = names[:maxNamedMoves], fmt.Sprintf(" from the first %d of them", maxNamedMoves)
	}
	return fmt.Sprintf("HelmOp begins no hold of %s, and does not change %s conditions: %s annotation %s means that "+
		"clusterctl move is moving %s. If no move is running, remove the annotation%s: kubectl -n %s annotate "+
		"clusters.%s %s %s-", which, its, its, clusterctlv1.DeleteForMoveAnnotation, them, from, namespace,
		clusterv1.GroupVersion.Group, strings.Join(names, " "), clusterctlv1.DeleteForMoveAnnotation)
}
