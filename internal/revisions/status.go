// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// KeepStatus copies the status of a revision into an annotation, because some backup tools restore no status. The copy
// has no approval, which may be large: an annotation of the HelmOp has the approval.
func KeepStatus(revision *addonsv1.HelmOpRevision) error {
	kept := revision.Status
	kept.Approval = nil
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encoding the status of HelmOp revision %d: %w", revision.Spec.Number, err)
	}
	metav1.SetMetaDataAnnotation(&revision.ObjectMeta, addonsv1.RevisionStatusAnnotation, string(text))
	return nil
}

// KeptStatus returns the status of a revision that a backup tool has restored without its status. ok is false if the
// revision has its status, or if the annotation has none.
func KeptStatus(revision *addonsv1.HelmOpRevision) (status addonsv1.HelmOpRevisionStatus, ok bool) {
	if !revision.Status.StartedAt.IsZero() {
		return status, false
	}
	err := json.Unmarshal([]byte(revision.Annotations[addonsv1.RevisionStatusAnnotation]), &status)
	return status, err == nil && !status.StartedAt.IsZero()
}
