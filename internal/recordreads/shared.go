// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package recordreads

import (
	"context"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Sibling is a release whose records one request reads together with the records of others.
type Sibling struct {
	// Request is the request for the release.
	Request ctrl.Request
	// Name is the name of the Helm release, and Key is the key of the read, see [KeyOf].
	Name, Key string
	// Kept returns what gets the result; nil for a release that does not exist any more. It is called at the end of the
	// read.
	Kept func() *Kept
}

// ObserveShared does the same as Observe for the first read of a release, and holds no worker. One request reads the
// records of several releases of a cluster: all of them must be in the same namespace, and the same user must read
// them. While such a request runs, it begins no other request. The siblings are the other releases.
//
// At the end of the request, the release and the siblings with a result are enqueued. Then the passes over the releases
// of a cluster follow each other, and their watches begin together.
func (s *Reads) ObserveShared(ctx context.Context, cluster client.ObjectKey, own Sibling, siblings []Sibling,
	read func(context.Context) (map[string]model.Observation, error),
) (observation model.Observation, err error, done bool) {
	group, isUnresponsive := groupOf(own.Key), s.links.State(cluster).Unresponsive
	begin := func() bool { return s.beginShared(cluster, own, group, isUnresponsive) }
	return s.tasks.RunIf(ctx, 0, own.Key, own.Request, begin, s.bounded(cluster,
		func(ctx context.Context) (model.Observation, error) {
			var served []Sibling
			defer func() { s.endShared(cluster, group, served) }()
			at := time.Now()
			found, err := read(ctx)
			if err != nil {
				return model.Observation{}, err
			}
			for _, sibling := range siblings {
				// The result may lack a sibling, see helmclient.Client.ObserveNamespace.
				of, ok := found[sibling.Name]
				if !ok || groupOf(sibling.Key) != group {
					continue
				}
				of.ReadAt = at
				if kept := sibling.Kept(); kept != nil && kept.keepForTwo(sibling.Key, of) {
					served = append(served, sibling)
				}
			}
			return found[own.Name], nil
		}))
}

// groupOf returns the part of a key that is the same for all releases that one request can read. See KeyOf.
func groupOf(key string) string {
	const parts = 4 // The cluster with its UID, the user and the namespace.
	all := strings.SplitN(key, "\n", parts+1)
	return strings.Join(all[:min(parts, len(all))], "\n")
}

// beginShared reports whether a shared read may begin, and blocks the others of its group until endShared. So the read
// must then run. If it may not begin, the release is enqueued again when a read of the cluster ends.
func (s *Reads) beginShared(cluster client.ObjectKey, own Sibling, group string, isUnresponsive bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.shared[group]; ok || isUnresponsive && s.inFlight[cluster] >= maxReadsWhenUnresponsive {
		s.waitLocked(cluster, own.Request, own.Key)
		return false
	}
	s.shared[group] = struct{}{}
	s.inFlight[cluster]++
	return true
}

// endShared ends a shared read. The siblings with a result wait for the end of the read, too: each of them is then
// enqueued once, whether or not it has waited before.
func (s *Reads) endShared(cluster client.ObjectKey, group string, served []Sibling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.shared, group)
	if s.inFlight[cluster] == 0 {
		return // Forget was called during the read.
	}
	for _, sibling := range served {
		s.waitLocked(cluster, sibling.Request, sibling.Key)
	}
}
