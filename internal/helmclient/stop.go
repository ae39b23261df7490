// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// checkRecordExists returns an error if the newest record that the action saved no longer exists.
func (s *session) checkRecordExists(name string) error {
	newest := s.storage.Newest()
	if newest == nil || s.records == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), apply.RecordInterval)
	defer cancel()
	_, err := s.records.Metadata.Get(ctx, records.NameOf(name, newest.Version), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return helmerr.New(helmerr.ErrStale,
			"the record of Helm revision %d no longer exists: another process uninstalled the release", newest.Version)
	}
	// Other errors appear when the wait ends.
	return nil
}
