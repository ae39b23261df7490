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
	maps.Copy(labels, map[string]string{
		LabelFailures: "3", LabelRolledBackFrom: "f", LabelRollbackFailures: "2", LabelTested: TestedPassed, LabelInterrupted: "true", LabelPostRenderDigest: "p",
		LabelUnproven: "4",
	})
	record, _ = recordFromLabels(labels)
	want.Unproven = 4
	want.Failures, want.RolledBackFrom, want.RollbackFailures, want.Tested, want.Interrupted, want.PostRenderDigest = 3, "f", 2, TestedPassed, true, "p"
	if record != want {
		t.Errorf("got %+v, want %+v", record, want)
	}
	labels[LabelFailures], labels[LabelRollbackFailures] = "-1", "many"
	if record, _ := recordFromLabels(labels); record.Failures != 0 || record.RollbackFailures != 0 {
		t.Errorf("unreadable counts are read as %d and %d", record.Failures, record.RollbackFailures)
	}
	labels[LabelRevision] = "six"
	if record, _ := recordFromLabels(labels); record.authentic() {
		t.Error("an unreadable revision label is taken for authentic")
	}
}

func TestAttemptDigest(t *testing.T) {
	t.Parallel()
	d := testDesired()
	base := AttemptDigest(d)
	other := d
	other.UID, other.Owner, other.Name = "uid-9", "default.other", "other"
	other.ArtifactDigest = strings.TrimPrefix(other.ArtifactDigest, "sha256:")
	if AttemptDigest(other) != base {
		t.Error("the digest depends on who asks, or on how digests are written")
	}
	for name, change := range map[string]func(*Desired){
		"artifact":    func(d *Desired) { d.ArtifactDigest = "1" },
		"values":      func(d *Desired) { d.ValuesDigest = "1" },
		"options":     func(d *Desired) { d.OptionsDigest = "1" },
		"post-render": func(d *Desired) { d.PostRenderDigest = "1" },
		"moved":       func(d *Desired) { d.PostRenderDigest, d.OptionsDigest = d.OptionsDigest, "" },
	} {
		changed := d
		change(&changed)
		if AttemptDigest(changed) == base {
			t.Errorf("%s: the digest does not change", name)
		}
	}
}

func TestPostRenderDigestLabel(t *testing.T) {
	t.Parallel()
	d := testDesired()
	if _, ok := desiredLabels(d)[LabelPostRenderDigest]; ok {
		t.Error("there is a label where nothing is post-rendered")
	}
	before := testRecord("deployed", 1)
	if differ := before.differences(d); len(differ) > 0 {
		t.Errorf("a record of before differs in %v", differ)
	}
	d.PostRenderDigest = "sha256:" + strings.Repeat("d", 64)
	if differ := before.differences(d); len(differ) != 1 || differ[0] != DifferencePostRender {
		t.Errorf("differs in %v", differ)
	}
	if got := desiredLabels(d)[LabelPostRenderDigest]; got != strings.Repeat("d", 40) {
		t.Errorf("label %q", got)
	}
}

func TestRelabel(t *testing.T) {
	t.Parallel()
	d := testDesired()
	// What Helm carries over from the revision before, or from the one that is returned to.
	carried := map[string]string{
		"name": "helm's", "team": "kept", LabelOwner: "default.other", LabelReleaseUID: "uid-9", LabelArtifactDigest: "a9", LabelValuesDigest: "v9",
		LabelOptionsDigest: "o9", LabelPostRenderDigest: "p9", LabelRevision: "3", LabelFailures: "9", LabelTested: TestedFailed,
		LabelRolledBackFrom: "r9", LabelRollbackFailures: "9", LabelInterrupted: "true", LabelInterruptions: "9", LabelRequest: "q9", LabelUnproven: "2",
	}
	ours := map[string]string{"team": "kept", LabelOwner: ownerLabel(d.Owner), LabelReleaseUID: d.UID, LabelRevision: "7"}
	made := map[string]string{LabelArtifactDigest: strings.Repeat("a", 40), LabelValuesDigest: strings.Repeat("b", 40), LabelOptionsDigest: strings.Repeat("c", 40)}
	target := map[string]string{LabelArtifactDigest: "a9", LabelValuesDigest: "v9", LabelOptionsDigest: "o9", LabelPostRenderDigest: "p9"}
	returned := map[string]string{LabelRolledBackFrom: attemptLabel(d), LabelFailures: "2"}
	tests := map[string]struct {
		relabel relabel
		want    []map[string]string
	}{
		"first try":            {attemptLabels(d, Decision{}), []map[string]string{ours, made}},
		"third try":            {attemptLabels(d, Decision{Failures: 2}), []map[string]string{ours, made, {LabelFailures: "2"}}},
		"cut off twice":        {attemptLabels(d, Decision{Interruptions: 2}), []map[string]string{ours, made, {LabelInterruptions: "2"}}},
		"in a hurry":           {attemptLabels(d, Decision{Unproven: 6}), []map[string]string{ours, made, {LabelUnproven: "6"}}},
		"rollback, in a hurry": {rollbackLabels(d, Decision{RollbackTo: 3, Failures: 2, Unproven: 5}), []map[string]string{ours, target, returned, {LabelUnproven: "5"}}},
		"asked for":            {attemptLabels(d, Decision{Request: "q1"}), []map[string]string{ours, made, {LabelRequest: "q1"}}},
		"rollback, asked for":  {rollbackLabels(d, Decision{RollbackTo: 3, Failures: 2, Request: "q1"}), []map[string]string{ours, target, returned, {LabelRequest: "q1"}}},
		"rollback, cut off":    {rollbackLabels(d, Decision{RollbackTo: 3, Failures: 2, Interruptions: 1}), []map[string]string{ours, target, returned, {LabelInterruptions: "1"}}},
		"rollback":             {rollbackLabels(d, Decision{RollbackTo: 3, Failures: 2}), []map[string]string{ours, target, returned}},
		"rollback, again":      {rollbackLabels(d, Decision{RollbackTo: 3, Failures: 2, RollbackFailures: 1}), []map[string]string{ours, target, returned, {LabelRollbackFailures: "1"}}},
		"rollback to a hand's": {rollbackLabels(d, Decision{RollbackTo: 4, Failures: 2}), []map[string]string{ours, returned}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{}
			for _, part := range test.want {
				maps.Copy(want, part)
			}
			if got := test.relabel.apply(carried, 7); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
