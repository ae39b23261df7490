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
	"context"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// managementCluster returns the management cluster in the labels of the newest revision that has an owner, "" where they name none.
func (o Observation) managementCluster() string {
	for _, record := range o.Records {
		if record.Owner != "" {
			return record.ManagementCluster
		}
	}
	return ""
}

// isOfManagementCluster reports whether the release is of the management cluster that asks, or of the one that the object that asks was
// moved from.
func (o Observation) isOfManagementCluster(d Desired) bool {
	return isManagedBy(o.managementCluster(), d)
}

// isManagedBy reports whether a record with the label of a management cluster counts as one of the management cluster that asks.
// Records of older versions have no label and count as such.
func isManagedBy(label string, d Desired) bool {
	return label == "" || d.ManagementCluster == "" || label == ownerLabel(d.ManagementCluster) || isFormer(label, d)
}

// isFormer reports whether a record has the label of the management cluster that the object that asks was moved from.
func isFormer(label string, d Desired) bool {
	return label != "" && d.FormerManagementCluster != "" && label == ownerLabel(d.FormerManagementCluster)
}

// isSameOwner reports whether a foreign release is foreign for its management cluster alone.
func isSameOwner(obs Observation, d Desired) bool { return obs.Owner() == ownerLabel(d.Owner) }

// otherManagementCluster is the message for a release that a HelmOp of the same name has in another management cluster.
func (d Decision) otherManagementCluster(obs Observation) string {
	return fmt.Sprintf("The release belongs to the same HelmOp in another management cluster, whose namespace kube-system has the UID %q, and is"+
		" left alone: delete the HelmOp in one of the two management clusters, or set install.takeOwnership to take ownership of the"+
		" release.", obs.managementCluster())
}

// NamesFormer reports whether revisions of the release name the management cluster that the object that asks was moved from, see
// [Client.TakeOver].
func (o Observation) NamesFormer(d Desired) bool {
	for _, record := range o.Records {
		if isFormerRecord(record, d) {
			return true
		}
	}
	return false
}

func isFormerRecord(record Record, d Desired) bool {
	return record.Owner == ownerLabel(d.Owner) && isFormer(record.ManagementCluster, d) &&
		record.ManagementCluster != ownerLabel(d.ManagementCluster)
}

// TakeOver has all revisions of a release that name [Desired].FormerManagementCluster name [Desired].ManagementCluster, and changes
// nothing else of them. A revision that names another one by now is left as it is. The error is an [*Error].
func (c *Client) TakeOver(ctx context.Context, target Target, desired Desired, obs Observation) error {
	conn, err := c.connections.get(target)
	if err != nil {
		return observeError(err)
	}
	defer conn.observations.drop(conn.observationKey(desired.Namespace, desired.Name))
	secrets := conn.metadata.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(desired.Namespace)
	change, err := relabelPatch(LabelManagementCluster, ownerLabel(desired.FormerManagementCluster), ownerLabel(desired.ManagementCluster))
	if err != nil {
		return observeError(err)
	}
	for _, record := range obs.Records {
		if !isFormerRecord(record, desired) {
			continue
		}
		_, err := secrets.Patch(ctx, recordName(desired.Name, record.Revision), types.JSONPatchType, change, metav1.PatchOptions{FieldManager: fieldManager})
		// The API server answers a test that fails with Invalid.
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			return observeError(fmt.Errorf("taking over revision %d after a move: %w", record.Revision, err))
		}
	}
	return nil
}

// relabelPatch returns the JSON patch that replaces the value of a label, if the label has that value still.
func relabelPatch(key, from, to string) ([]byte, error) {
	path := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
	return json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": from},
		{"op": "replace", "path": path, "value": to},
	})
}
