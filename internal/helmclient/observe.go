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
	found, err := history(ctx, conn.Metadata, namespace, name)
	if err != nil {
		return model.Observation{}, helmerr.Observing(err)
	}
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, found)
	return observationOf(found), nil
}

// ObserveNamespace does the same as Observe for all releases of a namespace together, in one request. The result has
// the observations by the names of the releases; a release without records is not in the result. If the namespace has
// too many records for one response, the result has only the release with the name.
func (c *Client) ObserveNamespace(ctx context.Context, target model.Target, namespace, name string,
) (map[string]model.Observation, error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	at := conn.Observations.Now()
	byName, isComplete, err := historiesIn(ctx, conn.Metadata, namespace)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	if !isComplete {
		observation, err := c.Observe(ctx, target, namespace, name)
		return map[string]model.Observation{name: observation}, err
	}
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, byName[name])
	observations := make(map[string]model.Observation, len(byName))
	for of, found := range byName {
		observations[of] = observationOf(found)
	}
	return observations, nil
}

// historiesIn reads the metadata of all records in a namespace, by the names of their releases. isComplete is false if
// there are too many for one response.
func historiesIn(ctx context.Context, client metadata.Interface, namespace string,
) (byName map[string][]metav1.PartialObjectMetadata, isComplete bool, err error) {
	options := metav1.ListOptions{LabelSelector: records.SelectorOfAll, Limit: records.ObservePageSize}
	page, err := recordsIn(client, namespace).List(ctx, options)
	if err != nil || page.Continue != "" {
		return nil, false, err
	}
	byName = map[string][]metav1.PartialObjectMetadata{}
	for i := range page.Items {
		name := page.Items[i].Labels[model.HelmLabelName]
		byName[name] = append(byName[name], page.Items[i])
	}
	return byName, true, nil
}

func recordsIn(client metadata.Interface, namespace string) metadata.ResourceInterface {
	return client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
}

// history reads the metadata of a release's records.
func history(ctx context.Context, client metadata.Interface, namespace, name string,
) ([]metav1.PartialObjectMetadata, error) {
	options := metav1.ListOptions{LabelSelector: records.Selector(name), Limit: records.ObservePageSize}
	var found []metav1.PartialObjectMetadata
	for range records.MaxObservePages {
		page, err := recordsIn(client, namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		found = append(found, page.Items...)
		if page.Continue == "" {
			return found, nil
		}
		options.Continue = page.Continue
	}
	return nil, records.ErrTooMany
}

// observationOf returns the observation that the metadata of a release's records show.
func observationOf(found []metav1.PartialObjectMetadata) model.Observation {
	var obs model.Observation
	for i := range found {
		if record, ok := records.FromMetadata(&found[i].ObjectMeta); ok {
			obs.Records = append(obs.Records, record)
		}
	}
	slices.SortFunc(obs.Records, func(a, b model.Record) int { return b.Revision - a.Revision })
	return obs
}
