/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package watches

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/selection"
)

// RequestsForNamespace are the HelmOps that may serve Clusters of a namespace that is not theirs.
func RequestsForNamespace(reader client.Reader) func(context.Context, client.Object) []ctrl.Request {
	return func(ctx context.Context, namespace client.Object) []ctrl.Request {
		return requestsForHelmOps(&addonsv1.HelmOpList{Items: selection.RoamingHelmOps(ctx, reader, namespace.GetLabels(), "")})
	}
}

// Both are the requests of two maps.
func Both(a, b handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []ctrl.Request {
		return append(a(ctx, obj), b(ctx, obj)...)
	}
}
