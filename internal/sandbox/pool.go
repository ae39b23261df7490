// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Options are the options of a [Pool].
type Options struct {
	// Limits are the limits of each request.
	Limits Limits
	// Remedies are the texts of [LimitError.Remedy] for a pool outside the manager. Default: the flags of the manager.
	Remedies map[Limit]string
	// Children is the largest number of concurrent requests of one tenant. One additional child is for tenants without a
	// running request. Default: the number of processors for this program.
	Children int
	// Idle is how long a child without a request is kept. Default: 5 seconds.
	Idle time.Duration
	// Started is called when a child has started. Ended is called when a limit terminated a child. They may be nil.
	Started func()
	Ended   func(limit Limit)
	// Reserve is called before the output or a question of a child is read, if it is large. It waits until there is
	// memory for size bytes of a tenant, at most until ctx ends. For a question, release is called after the answer.
	// For the output, release is called when Run returns, and the caller of Run decodes the output after that. Nil
	// reserves nothing.
	Reserve func(ctx context.Context, tenant string, size int64) (release func(), err error)
}

// Pool is a [Runner] that runs requests in children. It is safe for concurrent use.
type Pool struct {
	options Options

	mu sync.Mutex
	// idle are the children without a request, the most recently used one last.
	idle []*process
	// held is the number of running requests by tenant. busy is the number of all running requests.
	held map[string]int
	busy int
	// waiters are the waiting requests. When a tenant is served, its other waiters move behind those of others.
	waiters []*waiter
	// idleTimer stops children that are idle for too long; nil if there are none.
	idleTimer *time.Timer
}

// waiter is a request that waits for a child.
type waiter struct {
	tenant string
	ready  chan struct{}
}

// NewPool returns a pool without children. Children start when they are needed.
func NewPool(options Options) *Pool {
	options.Limits = options.Limits.withDefaults()
	if options.Children <= 0 {
		options.Children = runtime.GOMAXPROCS(0)
	}
	if options.Idle <= 0 {
		options.Idle = 5 * time.Second
	}
	return &Pool{options: options, held: map[string]int{}}
}

// Run implements Runner.
func (p *Pool) Run(ctx context.Context, request Request) ([]byte, error) {
	if err := p.acquireFor(ctx, &request); err != nil {
		return nil, err
	}
	defer p.release(request.Tenant)
	if request.Begin != nil {
		if err := request.Begin(); err != nil {
			return nil, err
		}
	}
	if child := p.take(request.Shared); child != nil {
		output, err := p.runIn(ctx, child, &request)
		var limited *LimitError
		if !errors.As(err, &limited) || limited.Limit != LimitCrash || limited.Doing != "" {
			return output, err
		}
		// The operating system may have terminated the child before the request.
	}
	child, err := startProcess(p.options.Limits)
	if err != nil {
		return nil, err
	}
	child.reserve = p.options.Reserve
	if p.options.Started != nil {
		p.options.Started()
	}
	return p.runIn(ctx, child, &request)
}

// runIn runs a request in a child, and keeps the child if it can run more.
func (p *Pool) runIn(ctx context.Context, child *process, request *Request) ([]byte, error) {
	output, err := child.run(ctx, request)
	var limited *LimitError
	if errors.As(err, &limited) {
		limited.Remedies = p.options.Remedies
		if p.options.Ended != nil {
			p.options.Ended(limited.Limit)
		}
	}
	if !child.isOver {
		p.keep(child)
	}
	return output, err
}

// Close stops the idle children.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, child := range p.idle {
		child.stop()
	}
	p.idle = nil
}

// maxWait is how long a request waits for a child. Its caller may hold memory for which the requests in all children
// wait, and the rest of its own timeout must be long enough for what follows.
const maxWait = time.Minute

// errOccupied is the cause of an [ErrNoChild] after maxWait.
var errOccupied = errors.New("other requests occupy the renderers, so it is tried again later")

// acquireFor waits until a request may run.
func (p *Pool) acquireFor(ctx context.Context, request *Request) error {
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, errOccupied)
	defer cancel()
	return p.acquire(ctx, request.Tenant)
}

// acquire waits until a request of a tenant may run.
func (p *Pool) acquire(ctx context.Context, tenant string) error {
	w := &waiter{tenant: tenant, ready: make(chan struct{})}
	p.mu.Lock()
	p.waiters = append(p.waiters, w)
	p.admit()
	p.mu.Unlock()
	select {
	case <-w.ready:
		// Both may be true: a request that has ended must not begin.
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at := slices.Index(p.waiters, w)
	if at < 0 {
		// The request was admitted at the same moment.
		p.put(tenant)
		p.admit()
	} else {
		p.waiters = slices.Delete(p.waiters, at, at+1)
	}
	return fmt.Errorf("%w: %w", ErrNoChild, context.Cause(ctx))
}

func (p *Pool) release(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(tenant)
	p.admit()
}

// put records that a request of a tenant has ended.
func (p *Pool) put(tenant string) {
	p.busy--
	if p.held[tenant]--; p.held[tenant] == 0 {
		delete(p.held, tenant)
	}
}

// admit admits waiters while there are free children.
func (p *Pool) admit() {
	for {
		next := nextWaiter(p.waiters, p.held, p.busy, p.options.Children)
		if next < 0 {
			return
		}
		w := p.waiters[next]
		p.waiters = moveLast(slices.Delete(p.waiters, next, next+1), w.tenant)
		p.busy++
		p.held[w.tenant]++
		close(w.ready)
	}
}

// moveLast moves the waiters of a tenant behind those of other tenants. Otherwise, a tenant with older waiters would be
// served again and again before a tenant that has as few running requests.
func moveLast(waiters []*waiter, tenant string) []*waiter {
	var others, last []*waiter
	for _, w := range waiters {
		if w.tenant == tenant {
			last = append(last, w)
		} else {
			others = append(others, w)
		}
	}
	return append(others, last...)
}

// nextWaiter returns the index of the next waiter; -1 if none may run. It selects the first waiter of the tenants with
// the fewest running requests. The last child is only for tenants without a running request.
func nextWaiter(waiters []*waiter, held map[string]int, busy, children int) int {
	best := -1
	for i, w := range waiters {
		if best < 0 || held[w.tenant] < held[waiters[best].tenant] {
			best = i
		}
	}
	if best >= 0 && (busy < children || busy == children && held[waiters[best].tenant] == 0) {
		return best
	}
	return -1
}

// take returns an idle child, preferably one that has the shared data; nil if there is no idle child.
func (p *Pool) take(shared *Shared) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	at := slices.IndexFunc(p.idle, func(child *process) bool { return child.has(shared) })
	if at < 0 {
		at = len(p.idle) - 1
	}
	child := p.idle[at]
	p.idle = slices.Delete(p.idle, at, at+1)
	return child
}

// keep adds a child to the idle children.
func (p *Pool) keep(child *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	child.idleSince = time.Now()
	p.idle = append(p.idle, child)
	if p.idleTimer == nil {
		p.idleTimer = time.AfterFunc(p.options.Idle, p.endIdle)
	}
}

// endIdle stops the children that were idle for too long.
func (p *Pool) endIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.idle = slices.DeleteFunc(p.idle, func(child *process) bool {
		isOld := now.Sub(child.idleSince) >= p.options.Idle
		if isOld {
			child.stop()
		}
		return isOld
	})
	p.idleTimer = nil
	if len(p.idle) > 0 {
		p.idleTimer = time.AfterFunc(p.options.Idle-now.Sub(p.idle[0].idleSince), p.endIdle)
	}
}
