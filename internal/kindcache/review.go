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

package kindcache

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reviewer returns an Options.Review that asks the API server by SelfSubjectAccessReviews whether the manager may list and watch a kind in a
// namespace; an empty one stands for all.
func Reviewer(writer client.Writer, mapper meta.RESTMapper, namespace string) func(context.Context, schema.GroupVersionKind) (string, error) {
	return func(ctx context.Context, gvk schema.GroupVersionKind) (string, error) {
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return "", err
		}
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace, Verb: verb, Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
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
