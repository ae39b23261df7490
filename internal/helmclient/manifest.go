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
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Manifest returns the objects of a revision, with namespaces filled in, hooks left out. They are shared: read only. It
// keeps what Act made in memory; of another revision it reads the record. The error is an [*Error].
func (c *Client) Manifest(_ context.Context, _ Target, _, _ string, _ int) ([]*unstructured.Unstructured, error) {
	return nil, observeError(errors.New("not implemented yet"))
}
