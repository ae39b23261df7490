// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestChangedAt(t *testing.T) {
	t.Parallel()
	at := func(minutes int) metav1.Time {
		return metav1.NewTime(helmtest.Now.Add(time.Duration(minutes) * time.Minute))
	}
	updated := at(5)
	tests := map[string]struct {
		object   metav1.ObjectMeta
		labelled metav1.Time
		want     metav1.Time
	}{
		"created": {object: metav1.ObjectMeta{CreationTimestamp: at(1)}, want: at(1)},
		"managed": {object: metav1.ObjectMeta{CreationTimestamp: at(1),
			ManagedFields: []metav1.ManagedFieldsEntry{{}, {Time: &updated}}}, want: at(5)},
		"labelled": {object: metav1.ObjectMeta{CreationTimestamp: at(1)}, labelled: at(2), want: at(2)},
		"copied labels": {object: metav1.ObjectMeta{CreationTimestamp: at(1)}, labelled: metav1.Unix(1, 0),
			want: at(1)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := changedAt(&test.object, test.labelled.Time); !got.Equal(test.want.Time) {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if got := serverTime(&test.object); got.IsZero() != (test.object.ManagedFields == nil) ||
				!got.IsZero() && !got.Equal(updated.Time) {
				t.Errorf("the time of the server is %s", got)
			}
		})
	}
}

// TestAttemptsSince checks that the time in the label of a record counts only if HelmOp wrote it for this revision.
func TestAttemptsSince(t *testing.T) {
	t.Parallel()
	created := metav1.NewTime(helmtest.Now.Truncate(time.Second))
	before, after := created.Add(-time.Hour), created.Add(time.Hour)
	for name, tc := range map[string]struct {
		labelled time.Time
		revision string
		want     time.Time
	}{
		"first attempt":             {time.Time{}, "7", created.Time},
		"later attempt":             {before, "7", before},
		"clock of another server":   {after, "7", created.Time},
		"copied by an upgrade":      {before, "6", created.Time},
		"without number in a label": {before, "", created.Time},
	} {
		labels := model.DesiredLabels(helmtest.Desired())
		maps.Copy(labels, map[string]string{model.HelmLabelOwner: "helm", model.HelmLabelVersion: "7",
			model.LabelRevision: tc.revision})
		model.SetTime(labels, model.LabelAttemptsSince, tc.labelled)
		record, ok := FromMetadata(&metav1.ObjectMeta{Labels: labels, CreationTimestamp: created})
		if !ok || !record.AttemptsSince.Equal(tc.want) {
			t.Errorf("%s: %s, %t; want %s", name, record.AttemptsSince, ok, tc.want)
		}
	}
}
