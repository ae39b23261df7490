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

package records

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// CheckSize returns an error where a revision is too large to be recorded; packed is its size before base64.
func CheckSize(packed int, storage model.Storage) error {
	limit := storage.MaxPayload()
	if packed <= limit {
		return nil
	}
	advice := "leave files out of the chart that no template reads (tests, icons, documentation), or split the chart"
	where := "a registry that keeps records takes"
	if !storage.Outside {
		where, advice = "Secrets of the cluster take", advice+", or keep the records in a registry (spec.storage)"
	}
	return helmerr.New(helmerr.ErrTooLarge, "chart, values and manifest have %d KiB once compressed, and %s %d KiB: %s",
		(packed+1023)>>10, where, limit>>10, advice)
}
