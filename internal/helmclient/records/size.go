// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// CheckSize returns an error if a revision is too large for the storage. packed is its size before base64, in bytes.
func CheckSize(packed int, storage model.Storage) error {
	limit := storage.MaxPayload()
	if packed <= limit {
		return nil
	}
	advice := "remove files from the chart that no template reads (tests, icons, documentation), or split the chart"
	where := "a registry stores at most"
	if !storage.Outside {
		where, advice = "the Secrets of the cluster store at most",
			advice+", or store the records in a registry (spec.storage)"
	}
	return helmerr.New(helmerr.ErrTooLarge, "chart, values and manifest are %d KiB when compressed, and %s %d KiB: %s",
		(packed+1023)>>10, where, limit>>10, advice)
}
