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

package helmclient

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// prepareNamespace tells how the namespace of the release is to be; create says that this action may create it. It sends no
// request.
func (s *session) prepareNamespace(desired model.Desired, o model.InstallOptions, create bool) {
	n := s.namespace
	if n == nil {
		return
	}
	n.Name = desired.Namespace
	wanted := !n.Impersonated
	if o.CreateNamespace != nil {
		wanted = *o.CreateNamespace
	}
	n.Create = create && wanted
	n.Labels, n.Annotations = o.NamespaceLabels, o.NamespaceAnnotations
}
