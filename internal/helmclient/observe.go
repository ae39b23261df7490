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
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
)

const (
	// observePageSize is the number of records read by one request. With a history as it is by default there is
	// only one page.
	observePageSize = 500
	// maxObservePages bounds an observation of a release whose history is not limited.
	maxObservePages = 20
)

var errTooManyRecords = errors.New("the release has more records than can be read; limit its history")

// Observe reads what Helm's storage says about a release: the metadata of its records, in one request, none of their
// contents. The error is an [*Error].
func (c *Client) Observe(ctx context.Context, target Target, namespace, name string) (Observation, error) {
	conn, err := c.connections.get(target)
	if err != nil {
		return Observation{}, observeError(err)
	}
	at := conn.observations.now()
	obs, records, err := observe(ctx, conn.metadata, namespace, name)
	if err != nil {
		return Observation{}, observeError(err)
	}
	conn.observations.put(conn.observationKey(namespace, name), at, records)
	return obs, nil
}

func observeError(err error) *Error {
	return &Error{Kind: classify(err), Message: redactor{}.text(err.Error())}
}

func observe(ctx context.Context, client metadata.Interface, namespace, name string) (Observation, []metav1.PartialObjectMetadata, error) {
	options := metav1.ListOptions{LabelSelector: recordSelector(name), Limit: observePageSize}
	secrets := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	var obs Observation
	var found []metav1.PartialObjectMetadata
	for range maxObservePages {
		page, err := secrets.List(ctx, options)
		if err != nil {
			return Observation{}, nil, err
		}
		for i := range page.Items {
			if record, ok := recordFromMetadata(&page.Items[i].ObjectMeta); ok {
				obs.Records = append(obs.Records, record)
			}
		}
		found = append(found, page.Items...)
		if page.Continue == "" {
			slices.SortFunc(obs.Records, func(a, b Record) int { return b.Revision - a.Revision })
			return obs, found, nil
		}
		options.Continue = page.Continue
	}
	return Observation{}, nil, errTooManyRecords
}

func recordFromMetadata(object *metav1.ObjectMeta) (Record, bool) {
	record, ok := recordFromLabels(object.Labels)
	if !ok {
		return Record{}, false
	}
	record.ID, record.ChangedAt = object.UID, changedAt(object)
	return record, true
}

// changedAt returns the latest time at which the object is known to have been written. Helm's own labels with times
// are not enough: upgrades by hand carry those of the previous revision over.
func changedAt(object *metav1.ObjectMeta) time.Time {
	latest := object.CreationTimestamp.Time
	for _, entry := range object.ManagedFields {
		if entry.Time != nil && entry.Time.After(latest) {
			latest = entry.Time.Time
		}
	}
	for _, key := range []string{helmLabelCreatedAt, helmLabelModifiedAt} {
		if seconds, err := strconv.ParseInt(object.Labels[key], 10, 64); err == nil {
			if labelled := time.Unix(seconds, 0); labelled.After(latest) {
				latest = labelled
			}
		}
	}
	return latest
}
