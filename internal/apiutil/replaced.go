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

package apiutil

import (
	"context"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// ReplacedBy is the number of the revision for which a release makes way to another one.
func ReplacedBy(release *addonsv1.HelmOpRelease) (number int64, ok bool) {
	number, err := strconv.ParseInt(release.Annotations[addonsv1.ReplacedByRevisionAnnotation], 10, 64)
	return number, err == nil && number >= 0
}

// ReplaceChild ends a release that makes way to another one, which a revision wants in its Cluster.
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
