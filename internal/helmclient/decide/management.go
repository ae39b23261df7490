// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// otherManagementCluster returns the message for a release of a HelmOp of the same name in another management cluster.
// advice names the way to get the release.
func otherManagementCluster(obs model.Observation, advice string) string {
	return fmt.Sprintf("The release belongs to the HelmOp of the same name in another management cluster (UID %q of its "+
		"namespace kube-system): delete the HelmOp in one of the two management clusters, or %s.",
		obs.ManagementCluster(), advice)
}
