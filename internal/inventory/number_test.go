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

package inventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNumberOf(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		generation int64
		version    string
		want       int64
		isVersion  bool
	}{
		"a generation":         {3, "812", 3, false},
		"a version":            {0, "812", 812, true},
		"nothing":              {0, "", 0, true},
		"a version of letters": {0, "a1", 0, true},
		"a negative one":       {0, "-4", 0, true},
		"more than fits":       {0, "99999999999999999999", 0, true},
	} {
		got, isVersion := NumberOf(&metav1.ObjectMeta{Generation: tc.generation, ResourceVersion: tc.version})
		if got != tc.want || isVersion != tc.isVersion {
			t.Errorf("%s: %d, %t", name, got, isVersion)
		}
	}
}
