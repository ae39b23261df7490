// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
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
