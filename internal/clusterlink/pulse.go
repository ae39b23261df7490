// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	// pingInterval is how long the steady connection receives nothing before HTTP/2 sends a ping. A ping costs much less
	// than a probe. A connection without an answer is closed pingTimeout later: new watches cost much more than to wait.
	pingInterval, pingTimeout = 10 * time.Second, 35 * time.Second
	// maxSilence is how long an API server may send nothing before it is probed. It is longer than pingInterval, so a
	// server that answers pings is not probed. With two probes and sweepInterval, it bounds the time in which an
	// unreachable Cluster is detected: 25 s.
	maxSilence, sweepInterval = 13 * time.Second, time.Second
	// aliveInterval is the interval between probes of an API server that is not silent. Only a request shows that the
	// credentials are valid, and that more than the HTTP layer works. It is shorter than the idle timeout of connections.
	aliveInterval = time.Minute
)

// pulse is the last sign of life of an API server: when it last sent something on the steady connection, be it an
// event, a bookmark, a response, or the answer to a ping of HTTP/2. Signs do not count between a failed request and
// the next successful probe: a proxy may answer pings for an API server that does not respond.
type pulse struct {
	began time.Time
	// last is the time of the last sign, as the duration since began: a clock that is set back must not hide silence.
	last   atomic.Int64
	failed atomic.Bool
}

func newPulse() *pulse { return &pulse{began: time.Now()} }

// silence returns how long there was no sign.
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

// check records a failed request. The result is that of a RoundTripper.
func (p *pulse) check(req *http.Request, resp *http.Response, err error) {
	switch {
	case err != nil:
		if req.Context().Err() == context.Canceled {
			return
		}
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
	default:
		return
	}
	p.failed.Store(true)
}

// watched returns a dial function for connections whose received bytes are signs of life.
func (p *pulse) watched(dial utilnet.DialFunc) utilnet.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, pulse: p}, nil
	}
}

// watchedConn is a connection to a proxy or API server.
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

// isAlive reports whether a link needs no probe now, because its API server gives signs of life.
func (k *link) isAlive(maxSilence time.Duration) bool {
	return k.config != nil && k.state.Failures == 0 && k.pulse.silence() < maxSilence
}

// isSilent reports whether a link needs a probe, because its API server gives no signs of life.
func (k *link) isSilent(now time.Time, maxSilence time.Duration) bool {
	return k.config != nil && k.state.Failures == 0 && !k.isAlive(maxSilence) &&
		now.Sub(k.state.LastTry) >= probeInterval
}

// sweep enqueues the Clusters of silent API servers until the context ends. One timer for all links costs less than a
// reconciliation of each.
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
