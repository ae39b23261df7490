// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// prepareNamespace sets the desired state of the release's namespace. If create is true, this action may create the
// namespace. It sends no request.
func (s *session) prepareNamespace(desired model.Desired, o model.InstallOptions, create bool) {
	n := s.namespace
	if n == nil {
		return
	}
	n.Name = desired.Namespace
	desiredCreate := !n.Impersonated
	if o.CreateNamespace != nil {
		desiredCreate = *o.CreateNamespace
	}
	n.Create = create && desiredCreate
	n.Labels, n.Annotations = o.NamespaceLabels, o.NamespaceAnnotations
}
