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

package model

import (
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// Loss is what an upgrade or a rollback would delete: objects of the revisions before that the new manifest does not
// have, and that are not to be kept.
type Loss struct {
	// Objects are what would be deleted, in a fixed order. Total is the number of objects that the release has, these
	// included.
	Objects []inventory.Ref
	Total   int
	// Revision is the number of the revision that the release has.
	Revision int
}
