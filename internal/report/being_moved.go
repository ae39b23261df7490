// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
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
// of a move.
func BeingMoved(ctx context.Context, c client.Client, obj movable, resource string, owned []string) error {
	before := copied(obj)
	SetCondition(obj, addonsv1.PausedCondition, True, addonsv1.BeingMovedReason, fmt.Sprintf(
		"This object is not reconciled: its annotation %s means that clusterctl move is moving it to another management "+
			"cluster. If no move is running, remove the annotation: kubectl -n %s annotate %s %s %s-",
		clusterctlv1.DeleteForMoveAnnotation, obj.GetNamespace(), resource, obj.GetName(),
		clusterctlv1.DeleteForMoveAnnotation))
	Deleting(obj)
	return client.IgnoreNotFound(WriteObject(ctx, c, before, obj, owned))
}
