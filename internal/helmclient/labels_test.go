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
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestOwnerLabel(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 63) + "." + strings.Repeat("o", 100)
	tests := map[string]struct{ owner, want string }{
		"short":          {"default.calico", "default.calico"},
		"longest":        {strings.Repeat("a", 63), strings.Repeat("a", 63)},
		"long":           {long, strings.Repeat("n", 52) + "-"},
		"cut at a point": {strings.Repeat("n", 51) + "." + strings.Repeat("o", 100), strings.Repeat("n", 51) + "-"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ownerLabel(test.owner)
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("%q: %v", got, errs)
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want prefix %q", got, test.want)
			}
		})
	}
	if ownerLabel(long) == ownerLabel(long+"x") {
		t.Error("two long owners share a label")
	}
}

func TestDigestLabel(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("a", 40)
	for _, digest := range []string{"sha256:" + strings.Repeat("a", 64), strings.Repeat("a", 64), want} {
		if got := digestLabel(digest); got != want {
			t.Errorf("digestLabel(%q) = %q", digest, got)
		}
	}
}

func TestRecordFromLabels(t *testing.T) {
	t.Parallel()
	labels := desiredLabels(testDesired())
	maps.Copy(labels, map[string]string{"owner": "helm", "name": "calico", "status": "deployed", "version": "7", LabelRevision: "7"})
	record, ok := recordFromLabels(labels)
	want := testRecord("deployed", 7)
	want.ChangedAt = record.ChangedAt
	if !ok || record != want {
		t.Errorf("got %+v, %t; want %+v", record, ok, want)
	}
	for name, change := range map[string]func(map[string]string){
		"not Helm's":       func(l map[string]string) { l["owner"] = "other" },
		"no version":       func(l map[string]string) { delete(l, "version") },
		"version zero":     func(l map[string]string) { l["version"] = "0" },
		"version no digit": func(l map[string]string) { l["version"] = "v7" },
	} {
		changed := maps.Clone(labels)
		change(changed)
		if _, ok := recordFromLabels(changed); ok {
			t.Errorf("%s: taken for a record", name)
		}
	}
	labels[LabelRevision] = "six"
	if record, _ := recordFromLabels(labels); record.authentic() {
		t.Error("an unreadable revision label is taken for authentic")
	}
}
