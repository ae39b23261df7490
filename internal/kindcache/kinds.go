// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fairshare"
)

const (
	// firstReadWait is how long a caller waits for the first read of a kind. Most kinds are listed within this time.
	firstReadWait = 500 * time.Millisecond

	// maxCallers is the number of callers that may wait at the same time. The namespaces of the objects share this number.
	maxCallers = 4

	// slowAfter is the time after which a kind that is not synced counts as unreadable. syncTimeout is the time after
	// which its informer is stopped.
	slowAfter, syncTimeout = 10 * time.Second, time.Minute

	// retryAfter is the wait before the next attempt for a kind that could not be read.
	retryAfter = time.Minute

	// maxKinds is the largest number of kinds with an informer.
	maxKinds = 64

	// idleCheckInterval is the interval between checks for idle informers.
	idleCheckInterval = time.Minute

	// syncPoll is the interval at which a starting informer is checked.
	syncPoll = 20 * time.Millisecond
)

// ErrPending is returned until the objects of a kind are listed for the first time.
var ErrPending = errors.New("its kind is being read for the first time")

// ErrTooMany is returned when the limit of kinds is reached.
var ErrTooMany = fmt.Errorf("the Clusters refer to too many kinds: the manager reads at most %d kinds, and "+
	"only some of them for one namespace; delete Clusters or correct their references", maxKinds)

// UnreadableError says why the objects of a kind cannot be read.
type UnreadableError struct {
	Kind schema.GroupKind
	// Reason says what the manager cannot do, and the cause.
	Reason string
}

// Error implements error.
func (e *UnreadableError) Error() string { return e.Kind.String() + ": " + e.Reason }

// Informers are the informers of a cache.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
	RemoveInformer(ctx context.Context, obj client.Object) error
}

// Options are the options of Kinds.
type Options struct {
	// Reader reads from the cache of Informers.
	Reader client.Reader

	// Informers starts and stops the informers.
	Informers Informers

	// Review returns why the manager may not list and watch the kind; empty if it may. If Review returns an error, the
	// manager tries to read the kind. Default: the manager tries to read all kinds.
	Review func(ctx context.Context, kind schema.GroupVersionKind) (refusal string, err error)

	// Own are the kinds whose informers the controllers need. They are never stopped.
	Own []schema.GroupVersionKind

	// Idle is how long an informer runs without a read of its kind. 0 means no limit.
	Idle time.Duration
}

// Kinds reads objects of kinds that are known only at run time. It is a client.Reader for unstructured objects. It
// passes reads of other objects to Reader. It is safe for concurrent use.
type Kinds struct {
	Options
	now func() time.Time

	mu    sync.Mutex
	base  context.Context
	known map[schema.GroupVersionKind]*kind
	// slots limits the kinds of each namespace. callers limits the waiting callers of each namespace.
	slots, callers *fairshare.Pool[string]
}

// kind is the state of one kind.
type kind struct {
	namespace string
	begun     time.Time
	used      time.Time

	// isStarting is true while the informer is starting. isSynced is true if the kind can be read.
	isStarting, isSynced bool

	// err is the error of the last attempt, and retry is the time of the next attempt.
	err   error
	retry time.Time

	// firstResult is closed when the first attempt has a result.
	firstResult chan struct{}

	watchers map[*Watcher]struct{}
}

// New returns Kinds that has not read any kind yet.
func New(options Options) *Kinds {
	if options.Review == nil {
		options.Review = func(context.Context, schema.GroupVersionKind) (string, error) { return "", nil }
	}
	return &Kinds{
		Options: options, now: time.Now, base: context.Background(), known: map[schema.GroupVersionKind]*kind{},
		slots: fairshare.NewPool[string](maxKinds, maxKinds), callers: fairshare.NewPool[string](maxCallers, maxCallers),
	}
}

// Start implements manager.Runnable. It stops idle informers until the context ends.
func (k *Kinds) Start(ctx context.Context) error {
	k.mu.Lock()
	k.base = ctx
	k.mu.Unlock()
	wait.UntilWithContext(ctx, k.stopIdle, idleCheckInterval)
	return nil
}

// List implements client.Reader.
func (k *Kinds) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return k.Reader.List(ctx, list, options...)
}

// Get implements client.Reader. The error of an unstructured object may wrap ErrPending, ErrTooMany or an
// UnreadableError.
func (k *Kinds) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) error {
	if u, ok := obj.(*unstructured.Unstructured); ok && !slices.Contains(k.Own, u.GroupVersionKind()) {
		if err := k.ensure(ctx, key.Namespace, u.GroupVersionKind()); err != nil {
			return err
		}
	}
	return k.Reader.Get(ctx, key, obj, options...)
}

// ensure returns nil if a kind can be read now.
func (k *Kinds) ensure(ctx context.Context, namespace string, gvk schema.GroupVersionKind) error {
	known, waits, err := k.find(namespace, gvk)
	if err != nil || !waits {
		return err
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.callers.GiveBack(namespace)
	}()
	timer := time.NewTimer(firstReadWait)
	defer timer.Stop()
	select {
	case <-known.firstResult:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return known.state()
}

// find returns the state of a kind, and starts its informer if an attempt is due. If waits is true, the caller may wait
// and has taken a slot of callers.
func (k *Kinds) find(namespace string, gvk schema.GroupVersionKind) (known *kind, waits bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	known = k.known[gvk]
	if known == nil {
		if !k.slots.Admits(namespace) {
			return nil, false, ErrTooMany
		}
		k.slots.Take(namespace)
		known = &kind{namespace: namespace, begun: now, firstResult: make(chan struct{}), watchers: map[*Watcher]struct{}{}}
		k.known[gvk] = known
	}
	known.used = now
	if !known.isSynced && !known.isStarting && !now.Before(known.retry) {
		known.isStarting = true
		go k.startInformer(k.base, gvk, known)
	}
	err = known.state()
	// All callers of a kind wait until the same time: a later caller waits for less time.
	if errors.Is(err, ErrPending) && now.Sub(known.begun) < firstReadWait && k.callers.Admits(namespace) {
		k.callers.Take(namespace)
		return known, true, nil
	}
	return known, false, err
}

// state returns nil if a kind can be read, and otherwise the error. The caller holds mu of Kinds.
func (known *kind) state() error {
	switch {
	case known.isSynced:
		return nil
	case known.err != nil:
		return known.err
	default:
		return ErrPending
	}
}

// startInformer starts the informer of a kind, and records the result.
func (k *Kinds) startInformer(base context.Context, gvk schema.GroupVersionKind, known *kind) {
	ctx, cancel := context.WithTimeout(base, syncTimeout)
	defer cancel()
	if refusal, err := k.Review(ctx, gvk); err == nil && refusal != "" {
		k.setResult(gvk, known, refusal, false)
		return
	}
	slow := time.AfterFunc(slowAfter, func() {
		k.setResult(gvk, known, fmt.Sprintf("its objects could not be listed within %s", slowAfter), true)
	})
	defer slow.Stop()
	informer, err := k.Informers.GetInformer(ctx, objectOf(gvk), cache.BlockUntilSynced(false))
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, syncPoll, true,
			func(context.Context) (bool, error) { return informer.HasSynced(), nil })
	}
	switch {
	case err == nil:
		k.setResult(gvk, known, "", false)
	case base.Err() == nil:
		k.stop(base, gvk)
		reason := fmt.Sprintf("its objects could not be listed within %s", syncTimeout)
		if ctx.Err() == nil {
			reason = err.Error()
		}
		k.setResult(gvk, known, reason, false)
	}
}

// setResult records the result of an attempt. An empty reason means that the kind can be read. If continues is true,
// the attempt continues.
func (k *Kinds) setResult(gvk schema.GroupVersionKind, known *kind, reason string, continues bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known.isSynced {
		return
	}
	known.isStarting, known.isSynced = continues, reason == ""
	known.err, known.retry = nil, k.now().Add(retryAfter)
	if reason != "" {
		known.err = &UnreadableError{Kind: gvk.GroupKind(), Reason: reason}
	}
	select {
	case <-known.firstResult:
	default:
		close(known.firstResult)
	}
}

// stopIdle stops the informers of kinds that were not read for Options.Idle, and removes these kinds.
func (k *Kinds) stopIdle(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gvk, known := range k.known {
		if k.Idle <= 0 || known.isStarting || k.now().Sub(known.used) < k.Idle {
			continue
		}
		// It stops the informer under the lock, so that no caller reads the kind meanwhile.
		if known.isSynced {
			k.stop(ctx, gvk)
		}
		delete(k.known, gvk)
		k.slots.GiveBack(known.namespace)
	}
}

// stop stops the informer of a kind.
func (k *Kinds) stop(ctx context.Context, gvk schema.GroupVersionKind) {
	// RemoveInformer fails only for objects without a kind.
	_ = k.Informers.RemoveInformer(ctx, objectOf(gvk))
}

func objectOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}
