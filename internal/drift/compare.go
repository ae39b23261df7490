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

package drift

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Compare compares objects of a release's manifest with what is in the cluster and returns those that differ, in the
// order of the manifest. manifest may be a part of the release's objects; it is not changed. Objects that are being
// deleted are left out.
//
// One object's error does not hold up the others: the differences that were found are returned with it. The error is an
// [*Errors], or that of ctx.
func Compare(ctx context.Context, c Cluster, release Release, rules *Rules, manifest []*unstructured.Unstructured) ([]Difference, error) {
	_, _, _, _, _ = ctx, c, release, rules, manifest
	return nil, errors.ErrUnsupported
}
