// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

const (
	// AcceptMetadata makes the API server return only metadata after a write.
	AcceptMetadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

const (
	// ObservePageSize is the number of records per request. A history of the default length is a single page.
	ObservePageSize = 500
	// MaxObservePages bounds an observation of a release whose history is not limited.
	MaxObservePages = 20
)

// ErrTooMany is the error of reading a history that has no end.
var ErrTooMany = errors.New("the release has too many records: lower upgrade.maxHistory, or delete old release Secrets")

// FromMetadata reads the labels of a release Secret; ok is false if they are not those of a Helm release.
func FromMetadata(object *metav1.ObjectMeta) (model.Record, bool) {
	record, ok := model.RecordFromLabels(object.Labels)
	if !ok {
		return model.Record{}, false
	}
	record.ID, record.ChangedAt = object.UID, changedAt(object)
	return record, true
}

// changedAt returns the latest known write to the object. Helm's own labels with times do not suffice: upgrades with
// the helm command copy those of the previous revision.
func changedAt(object *metav1.ObjectMeta) time.Time {
	latest := object.CreationTimestamp.Time
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && entry.Time.After(latest) {
			latest = entry.Time.Time
		}
	}
	for _, key := range []string{model.HelmLabelCreatedAt, model.HelmLabelModifiedAt} {
		if seconds, err := strconv.ParseInt(object.Labels[key], 10, 64); err == nil {
			if labelled := time.Unix(seconds, 0); labelled.After(latest) {
				latest = labelled
			}
		}
	}
	return latest
}
