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

package bundle

import "helm.sh/helm/v3/pkg/chart"

// ReadMetadata returns what a packed chart says of itself, and refuses with ErrInvalidChart or ErrTooLarge what Loader would
// refuse within the default limits.
func ReadMetadata(packed []byte) (*chart.Metadata, error) {
	limits := Limits{}.withDefaults()
	files, _, err := unpack(packed, limits)
	if err != nil {
		return nil, err
	}
	c, err := parse(files, limits)
	if err != nil {
		return nil, err
	}
	return c.Metadata, nil
}
