// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcache

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reviewer returns a function for Options.Review. The function creates SelfSubjectAccessReviews to find out whether the
// manager may list and watch a kind in a namespace. An empty namespace means all namespaces.
func Reviewer(writer client.Writer, mapper meta.RESTMapper,
	namespace string,
) func(context.Context, schema.GroupVersionKind) (string, error) {
	return func(ctx context.Context, gvk schema.GroupVersionKind) (string, error) {
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return "", err
		}
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: mapping.Resource.Group, Version: mapping.Resource.Version,
					Resource: mapping.Resource.Resource,
				},
			}}
			if err := writer.Create(ctx, review); err != nil {
				return "", err
			}
			if !review.Status.Allowed {
				return fmt.Sprintf("the manager may not %s %s", verb, mapping.Resource.GroupResource()), nil
			}
		}
		return "", nil
	}
}
