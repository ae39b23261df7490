// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package watches

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// RequestsForNamespace returns requests for the HelmOps that may select Clusters of another namespace.
func RequestsForNamespace(lookup *selection.Lookup) func(context.Context, client.Object) []ctrl.Request {
	return func(ctx context.Context, namespace client.Object) []ctrl.Request {
		helmOps, err := lookup.HelmOpsOfNamespace(ctx, namespace)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Cannot find the HelmOps that select Clusters of a namespace", "namespace",
				namespace.GetName())
		}
		return requestsFor(helmOps)
	}
}

// both returns the requests of two mappings.
func both(a, b handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return append(a(ctx, obj), b(ctx, obj)...)
	}
}
