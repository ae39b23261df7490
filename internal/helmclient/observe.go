// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	at, newest := conn.Observations.Now(), conn.Newest.Get()
	found, err := historyOf(ctx, conn.Metadata, namespace, name)
	if err != nil {
		return model.Observation{}, helmerr.Observing(err)
	}
	c.reached(target, conn, found.version, newest)
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, found.metadata, found.bytes)
	return found.observation(), nil
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
	at, newest := conn.Observations.Now(), conn.Newest.Get()
	byName, version, err := historiesIn(ctx, conn.Metadata, namespace)
	if err != nil {
		return nil, helmerr.Observing(err)
	}
	if byName == nil {
		observation, err := c.Observe(ctx, target, namespace, name)
		return map[string]model.Observation{name: observation}, err
	}
	c.reached(target, conn, version, newest)
	found := cmp.Or(byName[name], &history{})
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, found.metadata, found.bytes)
	observations := make(map[string]model.Observation, len(byName))
	for of, found := range byName {
		observations[of] = found.observation()
	}
	return observations, nil
}

// clusterListTimeout is how long ObserveCluster waits for a list of all records. It leaves time for the list of one
// release.
const clusterListTimeout = 4 * time.Second

// ObserveCluster does the same as Observe, and also returns the namespaces of the cluster that have records of any
// release, in the same request. namespaces is nil if they are not known: the cluster has too many records for one
// response, or the list fails or is too slow. ObserveCluster then reads only the records of the release. It does not if
// the credentials are refused.
func (c *Client) ObserveCluster(ctx context.Context, target model.Target, namespace, name string,
) (observation model.Observation, namespaces map[string]bool, err error) {
	conn, err := c.connections.Get(target)
	if err != nil {
		return observation, nil, helmerr.Observing(err)
	}
	at, newest := conn.Observations.Now(), conn.Newest.Get()
	options := metav1.ListOptions{LabelSelector: records.SelectorOfAll, Limit: records.ObservePageSize}
	listCtx, cancel := context.WithTimeout(ctx, clusterListTimeout)
	defer cancel()
	page, err := recordsIn(conn.Metadata, metav1.NamespaceAll).List(listCtx, options)
	switch {
	case apierrors.IsUnauthorized(err):
		return observation, nil, helmerr.Observing(err)
	case err != nil, page.Continue != "", len(page.Items) > records.ObservePageSize:
		// A server that ignores the limit of the list must not fill the memory of the manager.
		observation, err = c.Observe(ctx, target, namespace, name)
		return observation, nil, err
	}
	c.reached(target, conn, page.ResourceVersion, newest)
	found, namespaces := &history{}, map[string]bool{}
	for i := range page.Items {
		object := &page.Items[i]
		namespaces[object.Namespace] = true
		if object.Namespace == namespace && object.Labels[model.HelmLabelName] == name {
			found.add(object)
		}
	}
	conn.Observations.Put(conn.ObservationKey(namespace, name), at, found.metadata, found.bytes)
	return found.observation(), namespaces, nil
}

// historiesIn reads the metadata of all records in a namespace, by the names of their releases, and the resourceVersion
// of the list. byName is nil if there are too many records for one response.
func historiesIn(ctx context.Context, client metadata.Interface, namespace string,
) (byName map[string]*history, version string, err error) {
	options := metav1.ListOptions{LabelSelector: records.SelectorOfAll, Limit: records.ObservePageSize}
	page, err := recordsIn(client, namespace).List(ctx, options)
	if err != nil || page.Continue != "" {
		return nil, "", err
	}
	byName = map[string]*history{}
	for i := range page.Items {
		name := page.Items[i].Labels[model.HelmLabelName]
		if byName[name] == nil {
			byName[name] = &history{}
		}
		byName[name].add(&page.Items[i])
	}
	return byName, page.ResourceVersion, nil
}

func recordsIn(client metadata.Interface, namespace string) metadata.ResourceInterface {
	return client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
}

// history is what is read from the metadata of a release's records.
type history struct {
	records []model.Record
	// metadata is the trimmed metadata. bytes is its size.
	metadata []metav1.PartialObjectMetadata
	bytes    int64
	// version is the resourceVersion of the list.
	version string
}

// add adds the metadata of a record.
func (h *history) add(object *metav1.PartialObjectMetadata) {
	if record, ok := records.FromMetadata(&object.ObjectMeta); ok {
		h.records = append(h.records, record)
	}
	trimmed, size := records.Trim(object)
	h.metadata = append(h.metadata, trimmed)
	h.bytes += size
}

// observation returns the observation that the records show.
func (h *history) observation() model.Observation {
	slices.SortFunc(h.records, func(a, b model.Record) int { return b.Revision - a.Revision })
	return model.Observation{Records: h.records}
}

// historyOf reads the metadata of a release's records.
func historyOf(ctx context.Context, client metadata.Interface, namespace, name string) (*history, error) {
	options := metav1.ListOptions{LabelSelector: records.Selector(name), Limit: records.ObservePageSize}
	found := &history{}
	for range records.MaxObservePages {
		page, err := recordsIn(client, namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		found.version = page.ResourceVersion // All pages have the one of the first page.
		for i := range page.Items {
			found.add(&page.Items[i])
		}
		if page.Continue == "" {
			return found, nil
		}
		if found.bytes > records.MaxObservedBytes {
			break
		}
		options.Continue = page.Continue
	}
	return nil, records.ErrTooMany
}
