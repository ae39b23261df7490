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

	"k8s.io/apimachinery/pkg/api/meta"
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

	// retryAfter is the wait before the next attempt for a kind that could not be read. answeredRetry is this wait if the
	// API server answered that the manager may not read the kind, or that it does not serve the kind. Such an attempt
	// costs little.
	retryAfter, answeredRetry = time.Minute, 15 * time.Second

	// servedPoll is the interval at which the API server is asked for a kind that it does not serve yet. reviewInterval
	// is the interval at which the right to read a kind is checked while its informer starts: an informer without this
	// right would repeat its list until syncTimeout.
	servedPoll, reviewInterval = time.Second, 10 * time.Second

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
	// manager tries to read the kind, unless the error says that the API server does not serve the kind: see
	// meta.IsNoMatchError. Default: the manager tries to read all kinds.
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
	used      time.Time

	// isStarting is true while the informer is starting. isSynced is true if the kind can be read.
	isStarting, isSynced bool

	// err is the error of the last attempt, and retry is the time of the next attempt.
	err   error
	retry time.Time

	// answered is true if the last attempt ended with an answer: see answeredRetry.
	answered bool

	// firstResult is closed when an attempt for which callers wait has a result. begun is the start of this attempt.
	// Callers wait for the first attempt, and for each attempt after an answer.
	firstResult chan struct{}
	begun       time.Time

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
	known, result, err := k.find(namespace, gvk)
	if result == nil {
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
	case <-result:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return known.state()
}

// find returns the state of a kind, and starts an attempt to read the kind if an attempt is due. If the caller may
// wait, the caller has taken a slot of callers, and result is closed when the attempt has a result. Otherwise result is
// nil.
func (k *Kinds) find(namespace string, gvk schema.GroupVersionKind) (known *kind, result <-chan struct{}, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	known = k.known[gvk]
	if known == nil {
		if !k.slots.Admits(namespace) {
			return nil, nil, ErrTooMany
		}
		k.slots.Take(namespace)
		known = &kind{namespace: namespace, watchers: map[*Watcher]struct{}{}}
		k.known[gvk] = known
	}
	known.used = now
	if !known.isSynced && !known.isStarting && !now.Before(known.retry) {
		isFirst := known.err == nil
		if isFirst || known.answered {
			known.begun, known.firstResult = now, make(chan struct{})
		}
		known.isStarting = true
		go k.startInformer(k.base, gvk, known, isFirst)
	}
	err = known.state()
	// All callers of a kind wait until the same time: a later caller waits for less time.
	mayWait := (errors.Is(err, ErrPending) || known.isStarting && known.answered) &&
		now.Sub(known.begun) < firstReadWait
	if mayWait && k.callers.Admits(namespace) {
		k.callers.Take(namespace)
		return known, known.firstResult, err
	}
	return known, nil, err
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

// startInformer makes an attempt to read a kind, and records the result. isFirst is true for the first attempt.
func (k *Kinds) startInformer(base context.Context, gvk schema.GroupVersionKind, known *kind, isFirst bool) {
	ctx, cancel := context.WithTimeout(base, syncTimeout)
	defer cancel()
	slow := time.AfterFunc(slowAfter, func() {
		k.setResult(gvk, known, fmt.Sprintf("its objects could not be listed within %s", slowAfter), attemptContinues)
	})
	defer slow.Stop()
	a := &attempt{kinds: k, gvk: gvk, next: k.now()}
	if isFirst {
		a.servedBy = a.next.Add(slowAfter)
	}
	err := wait.PollUntilContextCancel(ctx, syncPoll, true, a.step)
	if err != nil && base.Err() == nil && a.informer != nil {
		k.stop(base, gvk)
	}
	switch {
	case err == nil:
		k.setResult(gvk, known, "", attemptEnded)
	case base.Err() != nil:
	case ctx.Err() != nil:
		k.setResult(gvk, known, fmt.Sprintf("its objects could not be listed within %s", syncTimeout), attemptEnded)
	default:
		k.setResult(gvk, known, err.Error(), attemptAnswered)
	}
}

// attempt is a running attempt to read a kind.
type attempt struct {
	kinds *Kinds
	gvk   schema.GroupVersionKind

	// servedBy is the time until which the API server may begin to serve the kind: a user may apply a CRD and Clusters of
	// its kind together. It is the zero time in later attempts.
	servedBy time.Time

	// next is the time of the next review.
	next time.Time

	// informer is nil until the informer of the kind starts.
	informer cache.Informer
}

// step reports whether the kind can be read. An error ends the attempt: it is the answer of the API server, or the
// context has ended.
func (a *attempt) step(ctx context.Context) (bool, error) {
	if a.informer != nil && a.informer.HasSynced() {
		return true, nil
	}
	now := a.kinds.now()
	if now.Before(a.next) {
		return false, nil
	}
	refusal, err := a.kinds.Review(ctx, a.gvk)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil && refusal != "":
		return false, errors.New(refusal)
	}
	// The informer would look the kind up again. If the kind is served by then, the informer would start without a
	// review.
	if a.informer == nil && !meta.IsNoMatchError(err) {
		var informer cache.Informer
		if informer, err = a.kinds.Informers.GetInformer(ctx, objectOf(a.gvk), cache.BlockUntilSynced(false)); err == nil {
			a.informer = informer
		}
	}
	switch {
	case a.informer != nil:
		a.next = now.Add(reviewInterval)
		return a.informer.HasSynced(), nil
	case now.Before(a.servedBy):
		a.next = now.Add(servedPoll)
		return false, nil
	default:
		return false, err
	}
}

// progress says whether an attempt has ended, and how.
type progress int

const (
	attemptContinues progress = iota
	attemptEnded
	// attemptAnswered is the end of an attempt after an answer: see answeredRetry.
	attemptAnswered
)

// setResult records the result of an attempt. An empty reason means that the kind can be read.
func (k *Kinds) setResult(gvk schema.GroupVersionKind, known *kind, reason string, state progress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	// The result "slow" may arrive at the same time as the end of the attempt. It must not make an ended attempt run.
	if known.isSynced || !known.isStarting {
		return
	}
	known.isStarting, known.isSynced, known.answered = state == attemptContinues, reason == "", state == attemptAnswered
	delay := retryAfter
	if known.answered {
		delay = answeredRetry
	}
	known.err, known.retry = nil, k.now().Add(delay)
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
