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

package decide

import (
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// otherManagementCluster is the message for a release that a HelmOp of the same name has in another management cluster.
func (d Decision) otherManagementCluster(obs model.Observation) string {
	return fmt.Sprintf("The release belongs to the same HelmOp in another management cluster, whose namespace kube-system has the UID %q, and is"+
		" left alone: delete the HelmOp in one of the two management clusters, or set install.takeOwnership to take ownership of the"+
		" release.", obs.ManagementCluster())
}
