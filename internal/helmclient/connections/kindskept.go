// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import "sync"

// keptKinds bounds the discovery results that all clusters keep. If there are too many, the clusters with the largest
// results run discovery again for their next action. So a hostile cluster does not take the memory of others. Clusters
// with the same result share its size. It is safe for concurrent use.
type keptKinds struct {
	limit int64

	mu       sync.Mutex
	byKinds  map[*Kinds]*kindsResult
	byResult map[*kindsResult]map[*Kinds]struct{}
	bytes    int64
}

func newKeptKinds(limit int64) *keptKinds {
	return &keptKinds{limit: limit, byKinds: map[*Kinds]*kindsResult{},
		byResult: map[*kindsResult]map[*Kinds]struct{}{}}
}

// keep counts the result that a cluster keeps. The caller holds no lock of a [Kinds].
func (l *keptKinds) keep(k *Kinds, result *kindsResult) {
	for _, dropped := range l.add(k, result) {
		dropped.drop()
	}
}

// add adds a result. It removes and returns the clusters that must drop their results.
func (l *keptKinds) add(k *Kinds, result *kindsResult) (dropped []*Kinds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(k)
	if l.byResult[result] == nil {
		l.byResult[result] = map[*Kinds]struct{}{}
		l.bytes += result.bytes
	}
	l.byKinds[k], l.byResult[result][k] = result, struct{}{}
	for l.bytes > l.limit && len(l.byResult) > 1 {
		var largest *kindsResult
		most := int64(-1)
		for other, users := range l.byResult {
			if share := other.bytes / int64(len(users)); other != result && share > most {
				largest, most = other, share
			}
		}
		for user := range l.byResult[largest] {
			l.removeLocked(user)
			dropped = append(dropped, user)
		}
	}
	return dropped
}

// remove forgets a cluster that keeps no result.
func (l *keptKinds) remove(k *Kinds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removeLocked(k)
}

func (l *keptKinds) removeLocked(k *Kinds) {
	result := l.byKinds[k]
	if result == nil {
		return
	}
	delete(l.byKinds, k)
	if delete(l.byResult[result], k); len(l.byResult[result]) == 0 {
		delete(l.byResult, result)
		l.bytes -= result.bytes
	}
}

// Estimates of the memory for the parts of a result with the REST mapper, in bytes.
const (
	resourceBytes, versionBytes, textBytes = 1500, 1000, 16
)

// weigh sets the size of a result.
func (r *kindsResult) weigh() {
	bytes := len(r.groups) * versionBytes
	for _, list := range r.resources {
		bytes += versionBytes
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			bytes += resourceBytes + 4*(len(resource.Name)+len(resource.SingularName)+len(resource.Kind)+len(resource.Group))
			for _, texts := range [][]string{resource.Verbs, resource.ShortNames, resource.Categories} {
				for _, text := range texts {
					bytes += textBytes + len(text)
				}
			}
		}
	}
	r.bytes = int64(bytes)
}
