// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// Pool keeps Servers that are no longer used, for other users. A Server takes 3 s of a core to start, and 50 ms to
// reset. An idle Server is frozen: its timers would take a hundredth of a core. The methods may be called concurrently.
type Pool struct {
	dir string

	mu      sync.Mutex
	idle    []*pooled
	used    map[*Server]*pooled
	started int
	stopped bool
}

// pooled is a Server with the names of the users that had it.
type pooled struct {
	server *Server
	users  []string
}

// NewPool returns a Pool whose Servers have their work folders in dir.
func NewPool(dir string) *Pool {
	return &Pool{dir: dir, used: map[*Server]*pooled{}}
}

// Get returns a Server without controllers that has only the objects of a new Server. A user never gets the same Server
// twice: a client with the user's old address and certificates must find them useless.
func (p *Pool) Get(ctx context.Context, opts Options, user string) (*Server, error) {
	entry, number, err := p.take(opts, user)
	if err != nil {
		return nil, err
	}
	if entry != nil {
		if err := entry.server.thaw(ctx); err != nil {
			return nil, errors.Join(err, entry.server.Stop(context.WithoutCancel(ctx)))
		}
	} else {
		opts.Name = fmt.Sprintf("pool-%d", number)
		opts.Dir = filepath.Join(p.dir, opts.Name)
		server, err := Start(ctx, opts)
		if err != nil {
			return nil, err
		}
		if err := server.Save(ctx); err != nil {
			return nil, errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
		}
		entry = &pooled{server: server}
	}
	entry.users = append(entry.users, user)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errors.Join(errPoolStopped, entry.server.Stop(context.WithoutCancel(ctx)))
	}
	p.used[entry.server] = entry
	return entry.server, nil
}

var errPoolStopped = errors.New("the pool of API servers was stopped")

// take removes an idle Server from the Pool and returns it, or nil if none is suitable. It also returns a number for a
// new Server.
func (p *Pool) take(opts Options, user string) (*pooled, int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, 0, errPoolStopped
	}
	i := slices.IndexFunc(p.idle, func(e *pooled) bool {
		return e.server.opts.Binaries.Path(binaries.KubeAPIServer) == opts.Binaries.Path(binaries.KubeAPIServer) &&
			!slices.Contains(e.users, user)
	})
	if i >= 0 {
		entry := p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		return entry, 0, nil
	}
	p.started++
	return nil, p.started, nil
}

// Put returns a Server to the Pool. It stops a Server that cannot be reset or that the Pool did not start.
func (p *Pool) Put(ctx context.Context, server *Server) error {
	p.mu.Lock()
	entry := p.used[server]
	delete(p.used, server)
	p.mu.Unlock()
	if entry == nil {
		return server.Stop(ctx)
	}
	err := server.Reset(ctx)
	if err == nil {
		err = server.freeze()
	}
	if err != nil {
		err = errors.Join(err, server.Stop(context.WithoutCancel(ctx)))
		if errors.Is(err, ErrNotResettable) {
			return nil
		}
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return server.Stop(ctx)
	}
	p.idle = append(p.idle, entry)
	return nil
}

// Owns reports whether a Server was started by the Pool.
func (p *Pool) Owns(server *Server) bool { return filepath.Dir(server.Dir()) == p.dir }

// Stop stops all Servers, in use or not.
func (p *Pool) Stop(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	var errs []error
	for _, entry := range p.idle {
		errs = append(errs, entry.server.Stop(ctx))
	}
	for server := range p.used {
		errs = append(errs, server.Stop(ctx))
	}
	p.idle = nil
	clear(p.used)
	return errors.Join(errs...)
}
