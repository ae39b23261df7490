// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Management is the key of the management cluster among the keys of Clusters. No Cluster has this key, because all have
// a namespace.
var Management = client.ObjectKey{Name: "management-cluster"}

// kubeconfigReadTimeout bounds the read of a kubeconfig, which comes from a cache.
const kubeconfigReadTimeout = 5 * time.Second

// ErrNotConnected is wrapped by the errors for a Cluster without a link.
var ErrNotConnected = errors.New("not connected to the Cluster")

// ErrNotTried is an ErrNotConnected for a Cluster to which no connection was tried yet, for example because the manager
// just started or the kubeconfig was just replaced. It does not mean that the Cluster is unreachable.
var ErrNotTried = fmt.Errorf("%w: the first connection attempt has not ended yet", ErrNotConnected)

// State is how a Cluster has answered.
type State struct {
	// LastTry is when the API server was asked last; the zero time if it was not yet.
	LastTry time.Time
	// LastAnswer is when it answered last.
	LastAnswer time.Time
	// Failures is how often in a row it has not answered.
	Failures int
	// Cause is why the last try failed, as far as that is known.
	Cause Cause
}

// IsSilent reports whether a Cluster did not respond twice in a row. A single failure may be a lost packet or a restart
// of the API server.
func (s State) IsSilent() bool { return s.Failures >= silentFailures }

// Options of Links.
type Options struct {
	// Clusters reads Clusters, unstructured, from a cache.
	Clusters client.Reader
	// Kubeconfigs reads the Secrets with the kubeconfigs. Where it refuses one, it fills the Secret all the same.
	Kubeconfigs client.Reader
	// UserAgent is the user agent of all requests.
	UserAgent string
	// Management is the config of the management cluster; nil disables it. It is not probed: while it does not respond,
	// its manager cannot do anything.
	Management *rest.Config
	// RefuseLocal rejects API servers, and proxies of kubeconfigs, at loopback, link-local and unspecified addresses: the
	// author of a kubeconfig must not make the manager connect to its own machine.
	RefuseLocal bool
}

// Links are the ways to all Clusters. They are safe for concurrent use.
type Links struct {
	options Options
	now     func() time.Time
	// silentSpread is the constant of that name but in tests.
	silentSpread time.Duration

	// probe asks an API server for its version.
	probe func(ctx context.Context, host *http.Client, config *rest.Config) error

	mu    sync.RWMutex
	links map[client.ObjectKey]*link
	// queue is nil until the controller has begun.
	queue     workqueue.TypedRateLimitingInterface[ctrl.Request]
	listeners []*listener
}

// link is the way to one Cluster. The lock of Links guards it.
type link struct {
	// origin is the source of the link, or of the attempt to make it.
	origin origin
	// made is the config made from origin, nil if there is none yet; it stays while the link is down.
	made *rest.Config
	// config and client are nil while the link is down.
	config *rest.Config
	client *http.Client
	state  State
	// unreadSince is when the kubeconfig could not be read first, zero if it can.
	unreadSince time.Time
}

// isUnread reports whether the existence of a kubeconfig is unknown, and only for such a short time that no error is
// reported.
func (k *link) isUnread(found kubeconfig, now time.Time) bool {
	if !found.isUnread() {
		k.unreadSince = time.Time{}
		return false
	}
	if k.unreadSince.IsZero() {
		k.unreadSince = now
	}
	return now.Sub(k.unreadSince) < unreadPatience
}

// origin is the source of a link.
type origin struct {
	// cluster is the UID of the Cluster, which distinguishes a re-created Cluster.
	cluster    types.UID
	kubeconfig [sha256.Size]byte
}

// listener is a controller that is notified when links go up and down, and when a Cluster becomes silent.
type listener struct {
	handler handler.EventHandler
	// queue is nil until the controller has begun.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// New returns Links without any link.
func New(options Options) *Links {
	return &Links{options: options, now: time.Now, silentSpread: silentSpread, probe: askVersion,
		links: map[client.ObjectKey]*link{}}
}

// GetRESTConfig returns the config of a Cluster. Copy it before you change it. The error wraps ErrNotConnected or
// ErrNotTried. Do not call State instead to distinguish the two: a link that was made in between would look like one
// that is down.
func (l *Links) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	if cluster == Management && l.options.Management != nil {
		return l.options.Management, nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := l.links[cluster]
	switch {
	case known == nil || known.config == nil && known.state.LastTry.IsZero():
		return nil, fmt.Errorf("%w: %s", ErrNotTried, cluster)
	case known.config == nil:
		return nil, fmt.Errorf("%w: %s", ErrNotConnected, cluster)
	}
	return known.config, nil
}

// State returns how a Cluster has answered.
func (l *Links) State(cluster client.ObjectKey) State {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if known := l.links[cluster]; known != nil {
		return known.state
	}
	return State{}
}

// Source returns a source of requests for one controller. It maps a Cluster to requests when its link goes up or down,
// and when the Cluster becomes silent, see State.IsSilent, or responds again. The requests for a silent Cluster are
// spread over silentSpread.
func (l *Links) Source(requests handler.MapFunc) source.Source {
	heard := &listener{handler: handler.EnqueueRequestsFromMapFunc(requests)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, heard)
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		heard.queue = queue
		return nil
	})
}

// spreadQueue adds requests within a time.
type spreadQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	within time.Duration
}

// Add implements workqueue.TypedInterface.
func (q spreadQueue) Add(request ctrl.Request) { q.AddAfter(request, rand.N(q.within+1)) }

// tell notifies the listeners that a link went up or down, or that a Cluster became silent or responds again. It skips
// controllers that have not started: they reconcile everything at their start.
func (l *Links) tell(ctx context.Context, cluster client.Object, isSilent bool) {
	l.mu.RLock()
	listeners := make([]listener, 0, len(l.listeners))
	for _, heard := range l.listeners {
		if heard.queue != nil {
			listeners = append(listeners, *heard)
		}
	}
	l.mu.RUnlock()
	for _, heard := range listeners {
		queue := heard.queue
		if isSilent {
			queue = spreadQueue{queue, l.silentSpread}
		}
		heard.handler.Generic(ctx, event.GenericEvent{Object: cluster}, queue)
	}
}

// kubeconfig is the source of a link to a Cluster.
type kubeconfig struct {
	origin origin
	// data is empty if there is no kubeconfig.
	data []byte
	// err is why the kubeconfig is missing or must not be used.
	err error
}

// isUnread reports whether the existence of a kubeconfig is unknown.
func (k kubeconfig) isUnread() bool {
	return len(k.data) == 0 && k.err != nil && !apierrors.IsNotFound(k.err)
}

// find reads the kubeconfig of a Cluster.
func (l *Links) find(ctx context.Context, cluster client.Object) kubeconfig {
	ctx, cancel := context.WithTimeout(ctx, kubeconfigReadTimeout)
	defer cancel()
	stored := &corev1.Secret{}
	// A rejected kubeconfig counts, too: the one it replaces must not be used any longer. Each probe reads it again.
	err := l.options.Kubeconfigs.Get(ctx, client.ObjectKey{
		Namespace: cluster.GetNamespace(), Name: secret.Name(cluster.GetName(), secret.Kubeconfig),
	}, stored, client.UnsafeDisableDeepCopy)
	data := stored.Data[secret.KubeconfigDataName]
	return kubeconfig{origin: origin{cluster: cluster.GetUID(), kubeconfig: sha256.Sum256(data)}, data: data, err: err}
}

// drop ends the link to a Cluster and forgets it.
func (l *Links) drop(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.links[cluster]; known != nil {
		known.downLocked()
		delete(l.links, cluster)
	}
}

// downLocked ends a link.
func (k *link) downLocked() {
	if k.config == nil {
		return
	}
	// The client's own method does not unwrap transports.
	utilnet.CloseIdleConnectionsFor(k.config.Transport)
	k.config, k.client = nil, nil
	connected.Dec()
}

// upLocked begins a link.
func (k *link) upLocked(config *rest.Config, host *http.Client) {
	k.config, k.client = config, host
	connected.Inc()
}
