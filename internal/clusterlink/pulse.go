// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	// pingInterval is the time without data on the steady connection before HTTP/2 sends a ping. A ping costs much less
	// than a probe. If the answer is missing for pingTimeout, the connection is closed. This timeout is long, because
	// new watches cost much more than a wait.
	pingInterval, pingTimeout = 14 * time.Second, 35 * time.Second
	// maxSilence is the time without a sign of life before an API server is probed. It is longer than pingInterval, so
	// a server that answers pings is not probed. An unreachable Cluster is detected after maxSilence, two probes and
	// sweepInterval: within 27 s.
	maxSilence, sweepInterval = 15500 * time.Millisecond, time.Second
	// aliveInterval is the interval between probes of an API server that gives signs of life, but serves no watch. Only a
	// request can show that the credentials are valid and that more than the HTTP layer works. The interval is shorter
	// than the idle timeout of connections.
	aliveInterval = time.Minute
	// servedInterval is the interval between probes of an API server that serves a watch. Its bookmarks show that more
	// than the HTTP layer works; they need no probe. maxUnserved is the time without an event or bookmark after which a
	// watch does not count: API servers send a bookmark a minute. A probe then takes place after aliveInterval. Revoked
	// credentials are detected after servedInterval, or with the next request.
	servedInterval, maxUnserved = 10 * time.Minute, 90 * time.Second
)

// pulse records the signs of life of an API server. All data on the steady connection are a sign of life: events,
// bookmarks, responses and answers to HTTP/2 pings. After a failed request, data do not count until the next successful
// probe: a proxy may answer pings for an API server that does not respond.
type pulse struct {
	began time.Time
	// last is the time of the last sign, as a duration since began. So a clock that is set back cannot hide silence.
	last atomic.Int64
	// served is the time at which a watch received data, in the same form.
	served atomic.Int64
	failed atomic.Bool
}

func newPulse() *pulse {
	p := &pulse{began: time.Now()}
	p.served.Store(-int64(maxUnserved))
	return p
}

// isServed reports whether a watch received data within maxUnserved.
func (p *pulse) isServed() bool {
	return time.Since(p.began)-time.Duration(p.served.Load()) < maxUnserved
}

// silence returns the time since the last sign.
func (p *pulse) silence() time.Duration { return time.Since(p.began) - time.Duration(p.last.Load()) }

// sign records a sign of life.
func (p *pulse) sign() {
	if !p.failed.Load() {
		p.last.Store(int64(time.Since(p.began)))
	}
}

// answered records a successful probe.
func (p *pulse) answered() {
	p.failed.Store(false)
	p.sign()
}

// check records a failed request. The parameters are the request and the results of a RoundTripper. A request that its
// caller cancelled has not failed. But a deadline also cancels requests: its cause is then another error than
// context.Canceled.
func (p *pulse) check(req *http.Request, resp *http.Response, err error) {
	switch {
	case err != nil:
		if errors.Is(context.Cause(req.Context()), context.Canceled) {
			return
		}
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
	default:
		return
	}
	p.failed.Store(true)
}

// watched returns a dial function. The data that its connections receive are signs of life.
func (p *pulse) watched(dial utilnet.DialFunc) utilnet.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, pulse: p}, nil
	}
}

// watchedConn is a connection to a proxy or to an API server.
type watchedConn struct {
	net.Conn
	pulse *pulse
}

// Read implements net.Conn.
func (c *watchedConn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	if n > 0 {
		c.pulse.sign()
	}
	return n, err
}

// recordServed records that a watch received data.
func (p *pulse) recordServed() { p.served.Store(int64(time.Since(p.began))) }

// isAlive reports whether a link needs no probe now because its API server gives signs of life.
func (k *link) isAlive(maxSilence time.Duration) bool {
	return k.config != nil && k.state.Failures == 0 && k.pulse.silence() < maxSilence
}

// isSilent reports whether a link needs a probe because its API server gives no signs of life, or no longer serves a
// watch.
func (k *link) isSilent(now time.Time, maxSilence time.Duration) bool {
	if k.config == nil || k.state.Failures > 0 {
		return false
	}
	rest := now.Sub(k.state.LastTry)
	return rest >= probeInterval && !k.isAlive(maxSilence) || rest >= aliveInterval && !k.pulse.isServed()
}

// sweep enqueues the Clusters of silent API servers until the context ends. One timer for all links costs less than
// separate reconciliations.
func (l *Links) sweep(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.enqueueSilent()
		}
	}
}

func (l *Links) enqueueSilent() {
	l.mu.RLock()
	queue, now := l.queue, l.now()
	var silent []ctrl.Request
	for cluster, known := range l.links {
		if known.isSilent(now, l.maxSilence) {
			silent = append(silent, ctrl.Request{NamespacedName: cluster})
		}
	}
	l.mu.RUnlock()
	switch queue := queue.(type) {
	case nil:
	case priorityqueue.PriorityQueue[ctrl.Request]:
		queue.AddWithOpts(priorityqueue.AddOpts{Priority: new(probePriority)}, silent...)
	default:
		for _, request := range silent {
			queue.Add(request)
		}
	}
}
