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
	// grace is how long a caller waits for a kind that is read for the first time. Most are known by then.
	grace = 500 * time.Millisecond

	// patience is how many callers wait at the same time, shared by the namespaces of what they read.
	patience = 4

	// slowAfter is when a kind that is not synced counts as unreadable, and syncTimeout when its informer ends.
	slowAfter, syncTimeout = 10 * time.Second, time.Minute

	// retryAfter is how long a kind that could not be read is not tried again.
	retryAfter = time.Minute

	// maxKinds bounds the kinds that are known at the same time.
	maxKinds = 64

	// sweepInterval is how often informers that nobody reads are looked for.
	sweepInterval = time.Minute

	// syncPoll is how often an informer that begins is asked whether it is synced.
	syncPoll = 20 * time.Millisecond
)

// ErrPending is returned while the objects of a kind are listed for the first time.
var ErrPending = errors.New("its kind is being read for the first time")

// ErrTooMany is returned when the limit of kinds is reached.
var ErrTooMany = fmt.Errorf("the Clusters refer to too many kinds: the manager reads at most %d, of which one "+
	"namespace can use a part;"+
	" delete Clusters or correct their references", maxKinds)

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

// Options are what Kinds work with.
type Options struct {
	// Reader reads from the cache of Informers.
	Reader client.Reader

	// Informers are begun and ended.
	Informers Informers

	// Review tells why the manager may not list and watch a kind; empty if it may. An error means that this is not known,
	// and the kind is tried. Default: all kinds are tried.
	Review func(ctx context.Context, kind schema.GroupVersionKind) (refusal string, err error)

	// Own are kinds whose informers are not touched, because the controllers need them.
	Own []schema.GroupVersionKind

	// Idle is how long an informer lasts that nobody reads. 0 is for ever.
	Idle time.Duration
}

// Kinds read objects of kinds that are named at run time. They are a client.Reader for unstructured objects; all others
// are read as they are. They are safe for concurrent use.
type Kinds struct {
	Options
	now func() time.Time

	mu    sync.Mutex
	life  context.Context
	known map[schema.GroupVersionKind]*kind
	// places are shared by the namespaces that named a kind first, callers by those that wait for one.
	places, callers *fairshare.Pool[string]
}

// kind is what is known of a kind.
type kind struct {
	namespace string
	begun     time.Time
	used      time.Time

	// isTried tells that the informer is under way; isSynced that the kind can be read.
	isTried, isSynced bool

	// err is why the kind could not be read when it was tried last, and retry when it is tried again.
	err   error
	retry time.Time

	// decided is closed when the first try came to something.
	decided chan struct{}

	watchers map[*Watcher]struct{}
}

// New returns Kinds that know no kind.
func New(options Options) *Kinds {
	if options.Review == nil {
		options.Review = func(context.Context, schema.GroupVersionKind) (string, error) { return "", nil }
	}
	return &Kinds{
		Options: options, now: time.Now, life: context.Background(), known: map[schema.GroupVersionKind]*kind{},
		places: fairshare.NewPool[string](maxKinds, maxKinds), callers: fairshare.NewPool[string](patience, patience),
	}
}

// Start implements manager.Runnable: it ends informers that nobody reads, until the context ends.
func (k *Kinds) Start(ctx context.Context) error {
	k.mu.Lock()
	k.life = ctx
	k.mu.Unlock()
	wait.UntilWithContext(ctx, k.sweep, sweepInterval)
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

// ensure returns nil if a kind can be read without waiting.
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
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-known.decided:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return known.state()
}

// find returns what is known of a kind, and begins it if it is to be tried. If waits is true, the caller may wait for
// it, and has a place among callers.
func (k *Kinds) find(namespace string, gvk schema.GroupVersionKind) (known *kind, waits bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	known = k.known[gvk]
	if known == nil {
		if !k.places.Admits(namespace) {
			return nil, false, ErrTooMany
		}
		k.places.Take(namespace)
		known = &kind{namespace: namespace, begun: now, decided: make(chan struct{}), watchers: map[*Watcher]struct{}{}}
		k.known[gvk] = known
	}
	known.used = now
	if !known.isSynced && !known.isTried && !now.Before(known.retry) {
		known.isTried = true
		go k.try(k.life, gvk, known)
	}
	err = known.state()
	// One grace for each kind: a caller that comes later does not wait any more.
	if errors.Is(err, ErrPending) && now.Sub(known.begun) < grace && k.callers.Admits(namespace) {
		k.callers.Take(namespace)
		return known, true, nil
	}
	return known, false, err
}

// state is nil if a kind can be read, and otherwise why not. The caller holds mu of Kinds.
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

// try begins the informer of a kind, and says what came of it.
func (k *Kinds) try(life context.Context, gvk schema.GroupVersionKind, known *kind) {
	ctx, cancel := context.WithTimeout(life, syncTimeout)
	defer cancel()
	if refusal, err := k.Review(ctx, gvk); err == nil && refusal != "" {
		k.decide(gvk, known, refusal, false)
		return
	}
	slow := time.AfterFunc(slowAfter, func() {
		k.decide(gvk, known, fmt.Sprintf("its objects could not be listed within %s", slowAfter), true)
	})
	defer slow.Stop()
	informer, err := k.Informers.GetInformer(ctx, objectOf(gvk), cache.BlockUntilSynced(false))
	if err == nil {
		err = wait.PollUntilContextCancel(ctx, syncPoll, true,
			func(context.Context) (bool, error) { return informer.HasSynced(), nil })
	}
	switch {
	case err == nil:
		k.decide(gvk, known, "", false)
	case life.Err() == nil:
		k.end(life, gvk)
		reason := fmt.Sprintf("its objects could not be listed within %s", syncTimeout)
		if ctx.Err() == nil {
			reason = err.Error()
		}
		k.decide(gvk, known, reason, false)
	}
}

// decide notes what a try came to. An empty reason means that the kind can be read. If goesOn is true, the try is not
// over.
func (k *Kinds) decide(gvk schema.GroupVersionKind, known *kind, reason string, goesOn bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known.isSynced {
		return
	}
	known.isTried, known.isSynced = goesOn, reason == ""
	known.err, known.retry = nil, k.now().Add(retryAfter)
	if reason != "" {
		known.err = &UnreadableError{Kind: gvk.GroupKind(), Reason: reason}
	}
	select {
	case <-known.decided:
	default:
		close(known.decided)
	}
}

// sweep ends the informers that nobody has read for a while, and forgets their kinds.
func (k *Kinds) sweep(ctx context.Context) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for gvk, known := range k.known {
		if k.Idle <= 0 || known.isTried || k.now().Sub(known.used) < k.Idle {
			continue
		}
		// Under the lock, so that nobody reads the kind meanwhile.
		if known.isSynced {
			k.end(ctx, gvk)
		}
		delete(k.known, gvk)
		k.places.GiveBack(known.namespace)
	}
}

// end ends the informer of a kind.
func (k *Kinds) end(ctx context.Context, gvk schema.GroupVersionKind) {
	// It fails only for objects whose kind cannot be told.
	_ = k.Informers.RemoveInformer(ctx, objectOf(gvk))
}

func objectOf(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}
