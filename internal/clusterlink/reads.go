// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reads is what the reads in one Cluster show.
type reads struct {
	timeOut bool
	// answered is when a read was last answered.
	answered time.Time
}

// ReadAnswered records that the API server of a Cluster answered a read.
func (l *Links) ReadAnswered(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setReadsLocked(cluster, &reads{answered: l.now()})
}

// ReadTimedOut records that the API server of a Cluster did not answer a read that began at a time. The call has no
// effect if the API server has answered a read since then.
func (l *Links) ReadTimedOut(cluster client.ObjectKey, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.reads[cluster]; known == nil || !began.Before(known.answered) {
		l.setReadsLocked(cluster, &reads{timeOut: true})
	}
}

// ForgetReads drops what the reads in a Cluster have shown, because the Cluster is not read any more or is another one.
func (l *Links) ForgetReads(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setReadsLocked(cluster, nil)
}

// setReadsLocked sets what the reads in a Cluster show; nil is nothing.
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
