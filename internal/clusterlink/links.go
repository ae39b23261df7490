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

// Management is what the management cluster is called where Clusters are. No Cluster has that key: they all have a namespace.
var Management = client.ObjectKey{Name: "management-cluster"}

// kubeconfigReadTimeout bounds the read of a kubeconfig, which comes from a cache.
const kubeconfigReadTimeout = 5 * time.Second

// ErrNotConnected is wrapped by errors that say that there is no link to a Cluster.
var ErrNotConnected = errors.New("not connected to the Cluster")

// ErrNotTried is an ErrNotConnected that says nothing of the Cluster: it was not tried yet, for example because the manager has just
// started or the kubeconfig was just replaced.
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

// IsSilent tells whether a Cluster has not answered twice in a row. One failure may be a lost packet or an API server
// that is restarted.
func (s State) IsSilent() bool { return s.Failures >= silentFailures }

// Options of Links.
type Options struct {
	// Clusters reads Clusters, unstructured, from a cache.
	Clusters client.Reader
	// Kubeconfigs reads the Secrets with the kubeconfigs. Where it refuses one, it fills the Secret all the same.
	Kubeconfigs client.Reader
	// UserAgent is what API servers are told.
	UserAgent string
	// Management is how the management cluster itself is reached; nil if it is not to be. It is not probed: while it does not answer,
	// its manager has nothing to do.
	Management *rest.Config
	// RefuseLocal refuses API servers, and proxies of kubeconfigs, at loopback, link-local and unspecified addresses: a person who can write
	// a kubeconfig must not make the manager connect to its own machine.
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
	// origin is what the link is, or was to be, made from.
	origin origin
	// made is what was made from it, nil if nothing was yet; it stays while the link is down.
	made *rest.Config
	// config and client are nil while the link is down.
	config *rest.Config
	client *http.Client
	state  State
	// unreadSince is when the kubeconfig could not be read first, zero if it can.
	unreadSince time.Time
}

// isUnread tells whether it is not known if there is a kubeconfig, and not for so long that people have to know.
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

// origin is what a link is made from.
type origin struct {
	// cluster is the UID of the Cluster: one that is created anew under the same name is another.
	cluster    types.UID
	kubeconfig [sha256.Size]byte
}

// listener is a controller that hears when links go up and down, and when a Cluster falls silent.
type listener struct {
	handler handler.EventHandler
	// queue is nil until the controller has begun.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// New returns Links without any link.
func New(options Options) *Links {
	return &Links{options: options, now: time.Now, silentSpread: silentSpread, probe: askVersion, links: map[client.ObjectKey]*link{}}
}

// GetRESTConfig returns how to reach a Cluster. It must be copied before it is changed. The error wraps ErrNotConnected, or
// ErrNotTried: who asked State for that instead, a moment later, would take a link that was made in between for one that is down.
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

// Source returns a source of requests for one controller: what a Cluster is mapped to whenever the link to it goes up
// or down, and when the Cluster falls silent, see State.IsSilent, or answers again. The requests for one that falls silent
// come within silentSpread.
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

// tell says that a link went up or down, or that a Cluster fell silent or answers again. A controller that has not begun
// yet looks at everything when it does.
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

// kubeconfig is what a link to a Cluster would be made from.
type kubeconfig struct {
	origin origin
	// data is empty if there is none.
	data []byte
	// err tells why it must not be used, or is not there.
	err error
}

// isUnread tells whether it is not known if there is one.
func (k kubeconfig) isUnread() bool {
	return len(k.data) == 0 && k.err != nil && !apierrors.IsNotFound(k.err)
}

// find reads the kubeconfig of a Cluster.
func (l *Links) find(ctx context.Context, cluster client.Object) kubeconfig {
	ctx, cancel := context.WithTimeout(ctx, kubeconfigReadTimeout)
	defer cancel()
	stored := &corev1.Secret{}
	// One that is refused counts, too: what it replaces must not be used any longer. It is only read, with every probe.
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
	// The client's own method does not look behind what is wrapped around the transport.
	utilnet.CloseIdleConnectionsFor(k.config.Transport)
	k.config, k.client = nil, nil
	connected.Dec()
}

// upLocked begins a link.
func (k *link) upLocked(config *rest.Config, host *http.Client) {
	k.config, k.client = config, host
	connected.Inc()
}
