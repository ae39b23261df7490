// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
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
			got := model.OwnerLabel(test.owner)
			if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
				t.Errorf("%q: %v", got, errs)
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want prefix %q", got, test.want)
			}
		})
	}
	if model.OwnerLabel(long) == model.OwnerLabel(long+"x") {
		t.Error("two long owners share a label")
	}
}

func TestDigestLabel(t *testing.T) {
	t.Parallel()
	want := strings.Repeat("a", 40)
	for _, digest := range []string{"sha256:" + strings.Repeat("a", 64), strings.Repeat("a", 64), want} {
		if got := model.DigestLabel(digest); got != want {
			t.Errorf("digestLabel(%q) = %q", digest, got)
		}
	}
}

func TestRecordFromLabels(t *testing.T) {
	t.Parallel()
	labels := model.DesiredLabels(helmtest.Desired())
	maps.Copy(labels, map[string]string{"owner": "helm", "name": "calico", "status": "deployed", "version": "7",
		model.LabelRevision: "7"})
	record, ok := model.RecordFromLabels(labels)
	want := helmtest.Record("deployed", 7)
	want.ChangedAt = record.ChangedAt
	if !ok || record != want {
		t.Errorf("got %+v, %t; want %+v", record, ok, want)
	}
	for name, written := range map[string][2]string{
		"created": {"1795176180", ""}, "modified": {"", "1795176180"}, "created, then modified": {"1", "1795176180"},
		"copied labels": {"1795176180", "1"}, "another text": {"1795176180", "x"},
	} {
		labelled := maps.Clone(labels)
		labelled[model.HelmLabelCreatedAt], labelled[model.HelmLabelModifiedAt] = written[0], written[1]
		if record, _ := model.RecordFromLabels(labelled); !record.WrittenAt.Equal(time.Unix(1795176180, 0)) {
			t.Errorf("%s: written at %s", name, record.WrittenAt)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"not Helm's":       func(l map[string]string) { l["owner"] = "other" },
		"no version":       func(l map[string]string) { delete(l, "version") },
		"version zero":     func(l map[string]string) { l["version"] = "0" },
		"version no digit": func(l map[string]string) { l["version"] = "v7" },
	} {
		changed := maps.Clone(labels)
		change(changed)
		if _, ok := model.RecordFromLabels(changed); ok {
			t.Errorf("%s: taken for a record", name)
		}
	}
	maps.Copy(labels, map[string]string{
		model.LabelFailures: "3", model.LabelRolledBackFrom: "f", model.LabelRollbackFailures: "2",
		model.LabelTested: model.TestedPassed, model.LabelInterrupted: "true", model.LabelPostRenderDigest: "p",
		model.LabelUnproven: "4", model.LabelNeverWorked: "true", model.LabelMayHaveWorked: "true",
		model.LabelAttemptsSince: "1795176180",
	})
	record, _ = model.RecordFromLabels(labels)
	want.AttemptsSince = time.Unix(1795176180, 0)
	want.NeverWorked, want.MayHaveWorked = true, true
	want.Unproven = 4
	want.Failures, want.RolledBackFrom, want.RollbackFailures, want.Tested, want.Interrupted, want.PostRenderDigest = 3,
		"f", 2, model.TestedPassed, true, "p"
	if record != want {
		t.Errorf("got %+v, want %+v", record, want)
	}
	labels[model.LabelFailures], labels[model.LabelRollbackFailures] = "-1", "many"
	if record, _ := model.RecordFromLabels(labels); record.Failures != 0 || record.RollbackFailures != 0 {
		t.Errorf("unreadable counts are read as %d and %d", record.Failures, record.RollbackFailures)
	}
	labels[model.LabelRevision] = "six"
	if record, _ := model.RecordFromLabels(labels); record.Authentic() {
		t.Error("an unreadable revision label is taken for authentic")
	}
}

func TestAttemptDigest(t *testing.T) {
	t.Parallel()
	d := helmtest.Desired()
	base := model.AttemptDigest(d)
	other := d
	other.UID, other.Owner, other.Name = "uid-9", "default.other", "other"
	other.ArtifactDigest = strings.TrimPrefix(other.ArtifactDigest, "sha256:")
	if model.AttemptDigest(other) != base {
		t.Error("the digest depends on who asks, or on how digests are written")
	}
	for name, change := range map[string]func(*model.Desired){
		"artifact":    func(d *model.Desired) { d.ArtifactDigest = "1" },
		"values":      func(d *model.Desired) { d.ValuesDigest = "1" },
		"options":     func(d *model.Desired) { d.OptionsDigest = "1" },
		"post-render": func(d *model.Desired) { d.PostRenderDigest = "1" },
		"moved":       func(d *model.Desired) { d.PostRenderDigest, d.OptionsDigest = d.OptionsDigest, "" },
	} {
		changed := d
		change(&changed)
		if model.AttemptDigest(changed) == base {
			t.Errorf("%s: the digest does not change", name)
		}
	}
}

func TestPostRenderDigestLabel(t *testing.T) {
	t.Parallel()
	d := helmtest.Desired()
	if _, ok := model.DesiredLabels(d)[model.LabelPostRenderDigest]; ok {
		t.Error("there is a label where nothing is post-rendered")
	}
	before := helmtest.Record("deployed", 1)
	if differ := before.Differences(d); len(differ) > 0 {
		t.Errorf("a record of before differs in %v", differ)
	}
	d.PostRenderDigest = "sha256:" + strings.Repeat("d", 64)
	if differ := before.Differences(d); len(differ) != 1 || differ[0] != model.DifferencePostRender {
		t.Errorf("differs in %v", differ)
	}
	if got := model.DesiredLabels(d)[model.LabelPostRenderDigest]; got != strings.Repeat("d", 40) {
		t.Errorf("label %q", got)
	}
}

func TestRelabel(t *testing.T) {
	t.Parallel()
	d := helmtest.Desired()
	// Helm copies these labels from the previous revision, or from the target of the rollback.
	carried := map[string]string{
		"name": "helm's", "team": "kept", model.LabelOwner: "default.other", model.LabelReleaseUID: "uid-9",
		model.LabelArtifactDigest: "a9", model.LabelValuesDigest: "v9",
		model.LabelOptionsDigest: "o9", model.LabelPostRenderDigest: "p9", model.LabelRevision: "3", model.LabelFailures: "9",
		model.LabelTested:         model.TestedFailed,
		model.LabelRolledBackFrom: "r9", model.LabelRollbackFailures: "9", model.LabelInterrupted: "true",
		model.LabelInterruptions: "9", model.LabelRequest: "q9", model.LabelUnproven: "2",
		model.LabelAttemptsSince: "9",
	}
	ours := map[string]string{"team": "kept", model.LabelOwner: model.OwnerLabel(d.Owner), model.LabelReleaseUID: d.UID,
		model.LabelRevision: "7"}
	made := map[string]string{model.LabelArtifactDigest: strings.Repeat("a", 40),
		model.LabelValuesDigest: strings.Repeat("b", 40), model.LabelOptionsDigest: strings.Repeat("c", 40)}
	target := map[string]string{model.LabelArtifactDigest: "a9", model.LabelValuesDigest: "v9",
		model.LabelOptionsDigest: "o9", model.LabelPostRenderDigest: "p9"}
	returned := map[string]string{model.LabelRolledBackFrom: model.AttemptLabel(d), model.LabelFailures: "2"}
	tests := map[string]struct {
		relabel records.Relabel
		want    []map[string]string
	}{
		"first attempt": {records.AttemptLabels(d, decide.Decision{}), []map[string]string{ours, made}},
		"third attempt": {records.AttemptLabels(d, decide.Decision{Failures: 2}),
			[]map[string]string{ours, made, {model.LabelFailures: "2"}}},
		"interrupted twice": {records.AttemptLabels(d, decide.Decision{Interruptions: 2}),
			[]map[string]string{ours, made, {model.LabelInterruptions: "2"}}},
		"unproven revision": {records.AttemptLabels(d, decide.Decision{Unproven: 6}),
			[]map[string]string{ours, made, {model.LabelUnproven: "6"}}},
		"rollback, unproven revision": {records.RollbackLabels(d, decide.Decision{RollbackTo: 3, Failures: 2, Unproven: 5}),
			[]map[string]string{ours, target, returned, {model.LabelUnproven: "5"}}},
		"attempts since a time": {records.AttemptLabels(d, decide.Decision{AttemptsSince: time.Unix(1795176180, 0)}),
			[]map[string]string{ours, made, {model.LabelAttemptsSince: "1795176180"}}},
		"may have worked": {records.AttemptLabels(d, decide.Decision{MayHaveWorked: true}),
			[]map[string]string{ours, made, {model.LabelMayHaveWorked: "true"}}},
		"retry requested": {records.AttemptLabels(d, decide.Decision{Request: "q1"}),
			[]map[string]string{ours, made, {model.LabelRequest: "q1"}}},
		"adoption": {records.AdoptionLabels(d, decide.Decision{Request: "q1"}),
			[]map[string]string{ours, made, {model.LabelRequest: "q1", model.LabelTested: model.TestedAdopted}}},
		"rollback, retry requested": {records.RollbackLabels(d, decide.Decision{RollbackTo: 3, Failures: 2, Request: "q1"}),
			[]map[string]string{ours, target, returned, {model.LabelRequest: "q1"}}},
		"rollback, interrupted": {records.RollbackLabels(d, decide.Decision{RollbackTo: 3, Failures: 2, Interruptions: 1}),
			[]map[string]string{ours, target, returned, {model.LabelInterruptions: "1"}}},
		"rollback": {records.RollbackLabels(d, decide.Decision{RollbackTo: 3, Failures: 2}),
			[]map[string]string{ours, target, returned}},
		"repeated rollback": {records.RollbackLabels(d, decide.Decision{RollbackTo: 3, Failures: 2, RollbackFailures: 1}),
			[]map[string]string{ours, target, returned, {model.LabelRollbackFailures: "1"}}},
		"rollback to a revision made with helm": {records.RollbackLabels(d, decide.Decision{RollbackTo: 4, Failures: 2}),
			[]map[string]string{ours, returned}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]string{}
			for _, part := range test.want {
				maps.Copy(want, part)
			}
			if got := test.relabel.Apply(carried, 7); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
