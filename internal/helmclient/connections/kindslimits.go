// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"io"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
)

// These are the limits of one discovery. A manager keeps the result for minutes, outside the memory budget, and an API
// server may be hostile. Clusters with thousands of CRDs serve about 5,000 resources in 3 MB.
const (
	// maxKindsBytes is the maximum size of all responses together, in bytes.
	maxKindsBytes = 8 << 20
	// maxKindsVersions is the maximum number of groups, and of versions of all groups together.
	maxKindsVersions = 1_000
	// maxKindsResources is the maximum number of resources and subresources.
	maxKindsResources = 8_000
	// maxKeptKinds bounds the results that all clusters keep, in bytes by estimate. One result alone may be larger.
	maxKeptKinds = 32 << 20
	// kindsAttempts is how often an incomplete discovery is run, as in client-go.
	kindsAttempts = 2
)

// errKindsTooLarge is the error of a discovery whose responses exceed maxKindsBytes.
var errKindsTooLarge = helmerr.New(helmerr.ErrUnreachable,
	"the lists of the API versions of the cluster are larger than %d MiB", maxKindsBytes>>20)

// kindsBody is the body of a response of a discovery.
type kindsBody struct {
	io.ReadCloser
	received *atomic.Int64
}

// Read implements io.Reader.
func (b *kindsBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.received.Add(int64(n)) > maxKindsBytes {
		return 0, errKindsTooLarge
	}
	return n, err
}

// limitedDiscovery is a discovery client that refuses too many groups or resources. Without it, client-go would request
// the resources of each group of an older server at the same time.
type limitedDiscovery struct{ *discovery.DiscoveryClient }

// GroupsAndMaybeResourcesWithContext implements discovery.AggregatedDiscoveryInterfaceWithContext.
func (d limitedDiscovery) GroupsAndMaybeResourcesWithContext(ctx context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error,
) {
	groups, resources, failed, err := d.DiscoveryClient.GroupsAndMaybeResourcesWithContext(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	versions := len(failed)
	for _, group := range groups.Groups {
		versions += len(group.Versions)
	}
	if versions = max(versions, len(groups.Groups)); versions > maxKindsVersions {
		return nil, nil, nil, helmerr.New(helmerr.ErrUnreachable,
			"the cluster serves %d API groups and versions, and more than %d are not supported", versions, maxKindsVersions)
	}
	return groups, resources, failed, nil
}

// read returns the groups and the resources that a cluster serves. As in client-go, the error may concern only some
// groups.
func (d limitedDiscovery) read(ctx context.Context) (groups []*metav1.APIGroup, resources []*metav1.APIResourceList,
	err error,
) {
	for range kindsAttempts {
		groups, resources, err = discovery.ServerGroupsAndResourcesWithContext(ctx, d)
		if !discovery.IsGroupDiscoveryFailedError(err) || ctx.Err() != nil {
			break
		}
	}
	count := 0
	for _, list := range resources {
		count += len(list.APIResources)
	}
	if count > maxKindsResources {
		return nil, nil, helmerr.New(helmerr.ErrUnreachable,
			"the cluster serves %d resources, and more than %d are not supported", count, maxKindsResources)
	}
	return groups, resources, err
}
