// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"crypto/sha256"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/recordcodec"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// defaultClusters is the maximum number of clusters in a Pool whose memory is not planned.
const defaultClusters = 5000

// Memory bounds the memory that all clusters of a Pool share. A nil budget has no bound.
type Memory struct {
	// Responses is the budget for responses while they are read. Tenants and clusters have shares.
	Responses *bytebudget.Budget
	// Actions is the budget for the records, charts and manifests of running actions. It is another budget: an action
	// that holds memory may wait for a response of its cluster.
	Actions *actionmemory.Budget
	// Pieces is the memory for packed charts, in bytes.
	Pieces int64
	// Clusters is the maximum number of clusters in a Pool. Above the maximum, the pool drops the state of the least
	// recently used cluster. The next check creates the state again. So a maximum below the number of all Clusters makes
	// each check slower. A cluster without recent actions takes some tens of kilobytes.
	Clusters int
}

// Pool holds the state of each cluster. It is safe for concurrent use.
type Pool struct {
	Shared sharedState

	mu       sync.Mutex
	clusters *lru.LRU[string, *cluster]
}

// sharedState holds caches and budgets that all clusters share.
type sharedState struct {
	codec        *recordcodec.Codec
	observations *records.Observations
	library      *kindsLibrary
	// Actions is the budget for records, charts and manifests of running actions.
	Actions *actionmemory.Budget
	// bytes is the budget for responses.
	bytes *bytebudget.Budget
}

// DefaultMemory returns the memory of a Pool whose memory is not planned. Only the size of each response is bounded,
// and not their sum.
func DefaultMemory() Memory {
	return Memory{Actions: actionmemory.NewBudget(actionmemory.Default), Pieces: recordcodec.MaxPieceBytes,
		Clusters: defaultClusters}
}

// NewSharedState returns a sharedState with empty caches.
func NewSharedState(memory Memory) sharedState {
	return sharedState{
		codec: recordcodec.NewBounded(memory.Pieces), observations: records.NewObservations(),
		library: newKindsLibrary(), bytes: memory.Responses, Actions: memory.Actions,
	}
}

// NewPool returns an empty pool.
func NewPool(memory Memory) *Pool {
	// NewLRU fails only if the size is not positive.
	clusters, _ := lru.NewLRU(memory.Clusters, func(_ string, dropped *cluster) { dropped.close() })
	return &Pool{Shared: NewSharedState(memory), clusters: clusters}
}

// Get returns the connection to the target. It creates a new connection if the config of the target changed.
func (cs *Pool) Get(target model.Target) (*Connection, error) {
	kept, err := cs.cluster(target)
	if err != nil {
		return nil, err
	}
	return kept.as(target.Impersonate)
}

// cluster returns the state of the cluster of the target.
func (cs *Pool) cluster(target model.Target) (*cluster, error) {
	if err := CheckConfig(target.Config); err != nil {
		return nil, err
	}
	identity := configIdentity(target.Config)
	if kept := cs.kept(target.Key, identity); kept != nil {
		return kept, nil
	}
	// The lock is not held meanwhile: after a start of the manager, the reads of a thousand clusters would wait for it.
	made, err := NewCluster(target.Key, target.Config, cs.Shared)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if kept, ok := cs.clusters.Get(target.Key); ok && kept.Identity == identity {
		return kept, nil // Another read made it at the same time.
	}
	cs.clusters.Remove(target.Key)
	if err != nil {
		return nil, err
	}
	cs.clusters.Add(target.Key, made)
	return made, nil
}

// kept returns the state of a cluster; nil if there is none, or if it has another identity.
func (cs *Pool) kept(key string, identity [sha256.Size]byte) *cluster {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if kept, ok := cs.clusters.Get(key); ok && kept.Identity == identity {
		return kept
	}
	return nil
}

// Forget drops the state of a cluster, for all users of the cluster.
func (cs *Pool) Forget(key string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.clusters.Remove(key)
}
