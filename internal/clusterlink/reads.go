// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reads has the results of the reads in one Cluster.
type reads struct {
	timeOut bool
	// answered is the time of the last answer to a read.
	answered time.Time
}

// ReadAnswered records that the API server of a Cluster answered a read.
func (l *Links) ReadAnswered(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setReadsLocked(cluster, &reads{answered: l.now()})
}

// ReadTimedOut records that the API server of a Cluster did not answer a read in time. began is the start of the read.
// If the API server has answered a read since then, the call has no effect.
func (l *Links) ReadTimedOut(cluster client.ObjectKey, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.reads[cluster]; known == nil || !began.Before(known.answered) {
		l.setReadsLocked(cluster, &reads{timeOut: true})
	}
}

// ForgetReads drops the results of reads in a Cluster. The Cluster is no longer read, or was re-created.
func (l *Links) ForgetReads(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setReadsLocked(cluster, nil)
}

// setReadsLocked sets the results of reads in a Cluster. nil removes them.
func (l *Links) setReadsLocked(cluster client.ObjectKey, shown *reads) {
	if known := l.reads[cluster]; known != nil && known.timeOut {
		unresponsive.Dec()
	}
	if shown == nil {
		delete(l.reads, cluster)
		return
	}
	l.reads[cluster] = shown
	if shown.timeOut {
		unresponsive.Inc()
	}
}
