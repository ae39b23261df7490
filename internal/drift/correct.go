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
)

// Correct puts right one difference that [Compare] found, by one request: it creates what is missing and patches only
// what differs. It does not delete, and it does not touch an object that was created anew since. The error is an
// [*ObjectError].
func Correct(ctx context.Context, c Cluster, d Difference) error {
	_, _, _ = ctx, c, d
	return errors.ErrUnsupported
}
