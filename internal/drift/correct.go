// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// Correct corrects one difference that [Compare] found, with one request. It creates a missing object, or patches only
// the differing fields. It does not delete. If the object was deleted or re-created after the comparison, the error is
// a conflict (apierrors.IsConflict): the caller must compare again. The error is an [*ObjectError].
func Correct(ctx context.Context, c Cluster, d Difference) error {
	if d.Owner != "" {
		return &ObjectError{Ref: d.Ref, Err: fmt.Errorf("not corrected: the object now belongs to release %s", d.Owner)}
	}
	if d.Refused != nil {
		return d.Refused
	}
	if err := correct(ctx, c, d); err != nil {
		return describe(d.Ref, err)
	}
	return nil
}

func correct(ctx context.Context, c Cluster, d Difference) error {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	mapping, err := c.Mapper.RESTMapping(d.Ref.GroupVersionKind().GroupKind(), d.Ref.Version)
	if err != nil {
		return err
	}
	resource := resourceClient(client, mapping, d.Ref.Namespace)
	var stale bool
	switch {
	case d.desired != nil:
		_, err = resource.Create(ctx, d.desired, metav1.CreateOptions{FieldManager: fieldManager})
		stale = apierrors.IsAlreadyExists(err)
	case len(d.patch) > 0:
		_, err = resource.Patch(ctx, d.Ref.Name, d.patchType, d.patch, metav1.PatchOptions{FieldManager: fieldManager})
		stale = isStale(err)
	default:
		return errors.New("the difference was not returned by a comparison")
	}
	if stale {
		return apierrors.NewConflict(mapping.Resource.GroupResource(), d.Ref.Name,
			errors.New("the object changed after it was compared"))
	}
	return err
}
