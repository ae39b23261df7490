// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"context"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// ReplacedBy reads the annotation that ReplaceChild writes. It returns the number of the HelmOp revision that replaces
// the release by another release. ok is false if the annotation has no valid number.
func ReplacedBy(release *addonsv1.HelmOpRelease) (number int64, ok bool) {
	number, err := strconv.ParseInt(release.Annotations[addonsv1.ReplacedByRevisionAnnotation], 10, 64)
	return number, err == nil && number >= 0
}

// ReplaceChild deletes a HelmOpRelease that a HelmOp revision replaces by another release in the same Cluster. Before
// the deletion, it writes the number of the revision into an annotation.
func ReplaceChild(ctx context.Context, c client.Client, child *addonsv1.HelmOpRelease, revision int64) error {
	if number, ok := ReplacedBy(child); !ok || number != revision {
		marked := child.DeepCopy()
		if marked.Annotations == nil {
			marked.Annotations = map[string]string{}
		}
		marked.Annotations[addonsv1.ReplacedByRevisionAnnotation] = strconv.FormatInt(revision, 10)
		if err := c.Patch(ctx, marked, client.MergeFrom(child)); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(c.Delete(ctx, child))
}
