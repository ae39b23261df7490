// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// Observe reads the metadata of a release's records in one request. It does not read the payloads. The error is an
// [*helmerr.Error].
func (c *Client) Observe(ctx context.Context, target model.Target, namespace, name string) (model.Observation, error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return model.Observation{}, helmerr.Observing(err)
	}
	at := conn.Observations.Now()
	obs, records, err := observe(ctx, conn.Metadata, namespace, name)
	if err != nil {
		return model.Observation{}, helmerr.Observing(err)
	}
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, records)
	return obs, nil
}

func observe(ctx context.Context, client metadata.Interface,
	namespace, name string,
) (model.Observation, []metav1.PartialObjectMetadata, error) {
	options := metav1.ListOptions{LabelSelector: records.Selector(name), Limit: records.ObservePageSize}
	secrets := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	var obs model.Observation
	var found []metav1.PartialObjectMetadata
	for range records.MaxObservePages {
		page, err := secrets.List(ctx, options)
		if err != nil {
			return model.Observation{}, nil, err
		}
		for i := range page.Items {
			if record, ok := records.FromMetadata(&page.Items[i].ObjectMeta); ok {
				obs.Records = append(obs.Records, record)
			}
		}
		found = append(found, page.Items...)
		if page.Continue == "" {
			slices.SortFunc(obs.Records, func(a, b model.Record) int { return b.Revision - a.Revision })
			return obs, found, nil
		}
		options.Continue = page.Continue
	}
	return model.Observation{}, nil, records.ErrTooMany
}
