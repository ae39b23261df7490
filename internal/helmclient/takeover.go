// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TakeOver changes the label of the management cluster on the records of a release, from one of
// [model.Desired].FormerManagementClusters to [model.Desired].ManagementCluster. It changes nothing else. It skips
// records whose label has changed since the observation. It begins with the newest record, which decides to which
// management cluster the release belongs. The error is an [*helmerr.Error].
func (c *Client) TakeOver(ctx context.Context, target model.Target, desired model.Desired,
	obs model.Observation,
) error {
	conn, err := c.connections.Get(target)
	if err != nil {
		return helmerr.Observing(err)
	}
	defer conn.Observations.Drop(conn.ObservationKey(desired.Namespace, desired.Name))
	secrets := conn.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(desired.Namespace)
	for _, record := range obs.Records {
		if !model.IsFormerRecord(record, desired) {
			continue
		}
		change, err := relabelPatch(model.LabelManagementCluster, record.ManagementCluster,
			model.OwnerLabel(desired.ManagementCluster))
		if err != nil {
			return helmerr.Observing(err)
		}
		_, err = secrets.Patch(ctx, records.NameOf(desired.Name, record.Revision), types.JSONPatchType, change,
			metav1.PatchOptions{FieldManager: model.FieldManager})
		// The API server returns Invalid if the test in the JSON patch fails.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			return helmerr.Observing(fmt.Errorf("taking over Helm revision %d after a move: %w", record.Revision, err))
		}
	}
	return nil
}

// relabelPatch returns a JSON patch that changes the value of a label. The patch fails if the label does not have the
// old value.
func relabelPatch(key, from, to string) ([]byte, error) {
	path := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	return json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": from},
		{"op": "replace", "path": path, "value": to},
	})
}
