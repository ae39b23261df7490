// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// ObservePageSize is the number of records per list request. A history of the default length has a single page.
	ObservePageSize = 500
	// MaxObservePages bounds the pages of an observation, because the history of a release may have no limit.
	MaxObservePages = 20
	// MaxObservedBytes bounds the metadata of an observation, in bytes, because the memory for a page is reserved only
	// until its end. As many records as HelmOp reads take about half of it.
	MaxObservedBytes = 32 << 20
)

// ErrTooMany is the error for a history with more records than HelmOp reads.
var ErrTooMany = errors.New("the release has too many records: lower upgrade.maxHistory, or delete old release Secrets")

// FromMetadata reads the labels of a release Secret. ok is false if they are not labels of a Helm release.
func FromMetadata(object *metav1.ObjectMeta) (model.Record, bool) {
	record, ok := model.RecordFromLabels(object.Labels)
	if !ok {
		return model.Record{}, false
	}
	record.ID, record.ChangedAt, record.ServerTime = object.UID, changedAt(object, record.WrittenAt), serverTime(object)
	since := object.CreationTimestamp.Time
	if record.Authentic() {
		since = model.Earlier(since, record.AttemptsSince)
	}
	record.AttemptsSince = since
	return record, true
}

// serverTime returns the time of the latest write to the object, by the clock of the API server; zero if the object has
// no managed fields. The time of the creation is not sufficient: a program may have removed the managed fields later.
func serverTime(object *metav1.ObjectMeta) time.Time {
	var latest time.Time
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && entry.Time.After(latest) {
			latest = entry.Time.Time
		}
	}
	return latest
}

// changedAt returns the time of the latest known write to the object. The time in Helm's own labels is not sufficient:
// an upgrade with the helm command copies the labels of the previous revision.
func changedAt(object *metav1.ObjectMeta, labelled time.Time) time.Time {
	latest := object.CreationTimestamp.Time
	for _, written := range []time.Time{serverTime(object), labelled} {
		if written.After(latest) {
			latest = written
		}
	}
	return latest
}
