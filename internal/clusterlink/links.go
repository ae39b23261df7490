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

// Management is the key of the management cluster. No Cluster has the same key, because Clusters have a namespace.
var Management = client.ObjectKey{Name: "management-cluster"}

// kubeconfigReadTimeout is the timeout for a read of a kubeconfig from the cache.
const kubeconfigReadTimeout = 5 * time.Second

// ErrNotConnected means that a Cluster has no link. Other errors wrap it.
var ErrNotConnected = errors.New("not connected to the Cluster")

// ErrNotTried means that too few connections to a Cluster were tried yet: the manager just started, or the kubeconfig
// was just replaced. It wraps ErrNotConnected. It does not mean that the Cluster is unreachable.
var ErrNotTried = fmt.Errorf("%w: the first connection attempts have not ended yet", ErrNotConnected)

// State has the results of the probes and of the reads of a Cluster.
type State struct {
	// LastTry is the time of the last probe; zero without a probe.
	LastTry time.Time
	// LastAnswer is the time of the last response of the API server.
	LastAnswer time.Time
	// Failures is the number of failed probes in a row.
	Failures int
	// Cause is the cause of the last failed probe; empty if it is not known.
	Cause Cause
	// Unresponsive is true if the API server did not answer a read of a release in time, and has answered no read
	// since. Workers must not wait for the Cluster. Probes do not count, because an API server answers probes without
	// its storage.
	Unresponsive bool
}

// IsUnreachable reports whether two probes of a Cluster failed in a row. One failure may be a lost packet or a restart
// of the API server.
func (s State) IsUnreachable() bool { return s.Failures >= unreachableFailures }

// Options are the settings of Links.
type Options struct {
	// Clusters reads Clusters from a cache, as unstructured objects.
	Clusters client.Reader
	// Kubeconfigs reads the Secrets with the kubeconfigs. If it rejects a Secret, it still fills the Secret.
	Kubeconfigs client.Reader
	// UserAgent is the user agent of all requests.
	UserAgent string
	// Management is the config of the management cluster; nil disables it. The management cluster is not probed,
	// because this manager cannot work without it.
	Management *rest.Config
	// RefuseLocal rejects loopback, link-local and unspecified addresses of API servers and of proxies in kubeconfigs.
	// The author of a kubeconfig must not be able to make the manager connect to its own machine.
	RefuseLocal bool
}

// Links are the links to all Clusters. They are safe for concurrent use.
type Links struct {
	options Options
	now     func() time.Time
	// unreachableSpread and maxSilence have the values of the constants, except in tests.
	unreachableSpread, maxSilence time.Duration

	// probe requests the version of an API server.
	probe func(ctx context.Context, host *http.Client, config *rest.Config) error
	// replaced is the function of OnReplace; nil if there is none.
	replaced func(cluster client.ObjectKey)

	mu    sync.RWMutex
	links map[client.ObjectKey]*link
	// reads has the results of reads in each Cluster. The management cluster has such results, but no link.
	reads map[client.ObjectKey]*reads
	// queue is nil until the controller starts.
	queue     workqueue.TypedRateLimitingInterface[ctrl.Request]
	listeners []*listener
}

// link is the link to one Cluster. The mutex of Links guards it.
type link struct {
	// origin is the source of the link or of the last attempt to make it.
	origin origin
	// made is the config that was made from origin; nil if there is none yet. It stays when the link is closed.
	made *rest.Config
	// pulse has the signs of life of the API server in made.
	pulse *pulse
	// bearer is the token of made; nil if made has no token.
	bearer *bearer
	// config and client are nil while the link is closed.
	config *rest.Config
	client *http.Client
	state  State
	// unreadSince is the time since which the kubeconfig cannot be read; zero if it can be read.
	unreadSince time.Time
}

// isUnread reports whether the kubeconfig could not be read, for less than unreadTolerance. During this time, no error
// is reported.
func (k *link) isUnread(found kubeconfig, now time.Time) bool {
	if !found.isUnread() {
		k.unreadSince = time.Time{}
		return false
	}
	if k.unreadSince.IsZero() {
		k.unreadSince = now
	}
	return now.Sub(k.unreadSince) < unreadTolerance
}

// origin is the source of a link.
type origin struct {
	// cluster is the UID of the Cluster. A re-created Cluster has another UID.
	cluster    types.UID
	kubeconfig [sha256.Size]byte
}

// listener is a controller that gets notifications: a link was made or closed, or a Cluster became unreachable or
// responds again.
type listener struct {
	handler handler.EventHandler
	// queue is nil until the controller starts.
	queue workqueue.TypedRateLimitingInterface[ctrl.Request]
}

// New returns Links. There are no links yet.
func New(options Options) *Links {
	return &Links{options: options, now: time.Now, unreachableSpread: unreachableSpread, maxSilence: maxSilence,
		probe: askVersion, links: map[client.ObjectKey]*link{}, reads: map[client.ObjectKey]*reads{}}
}

// OnReplace sets a function that is called when a Cluster has another kubeconfig, and not only another token. The
// previous config must then not be used any longer. Call OnReplace before the controller starts.
func (l *Links) OnReplace(replaced func(cluster client.ObjectKey)) { l.replaced = replaced }

// GetRESTConfig returns the config of a Cluster. Callers must copy it before they change it. The error wraps
// ErrNotConnected or ErrNotTried. Callers must not use State to distinguish the two, because the state may change
// between the calls.
func (l *Links) GetRESTConfig(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
	if cluster == Management && l.options.Management != nil {
		return l.options.Management, nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := l.links[cluster]
	switch {
	case known == nil || known.config == nil && !known.state.IsUnreachable():
		return nil, fmt.Errorf("%w: %s", ErrNotTried, cluster)
	case known.config == nil:
		return nil, fmt.Errorf("%w: %s", ErrNotConnected, cluster)
	}
	return known.config, nil
}

// State returns the results of the probes and of the reads of a Cluster.
func (l *Links) State(cluster client.ObjectKey) State {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var state State
	if known := l.links[cluster]; known != nil {
		state = known.state
	}
	shown := l.reads[cluster]
	state.Unresponsive = shown != nil && shown.timeOut
	return state
}

// Source returns a source of requests for one controller. requests maps a Cluster to requests when its link is made or
// closed, and when the Cluster becomes unreachable or responds again (State.IsUnreachable). The requests for an
// unreachable Cluster are spread over unreachableSpread.
func (l *Links) Source(requests handler.MapFunc) source.Source {
	added := &listener{handler: handler.EnqueueRequestsFromMapFunc(requests)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listeners = append(l.listeners, added)
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		added.queue = queue
		return nil
	})
}

// spreadQueue adds requests at random times within a period.
type spreadQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	within time.Duration
}

// Add implements workqueue.TypedInterface.
func (q spreadQueue) Add(request ctrl.Request) { q.AddAfter(request, rand.N(q.within+1)) }

// notify sends notifications to the listeners: a link was made or closed, or a Cluster became unreachable or responds
// again. It skips controllers that have not started, because they reconcile everything at their start.
func (l *Links) notify(ctx context.Context, cluster client.Object, isUnreachable bool) {
	l.mu.RLock()
	listeners := make([]listener, 0, len(l.listeners))
	for _, added := range l.listeners {
		if added.queue != nil {
			listeners = append(listeners, *added)
		}
	}
	l.mu.RUnlock()
	for _, added := range listeners {
		queue := added.queue
		if isUnreachable {
			queue = spreadQueue{queue, l.unreachableSpread}
		}
		added.handler.Generic(ctx, event.GenericEvent{Object: cluster}, queue)
	}
}

// kubeconfig is the source of a link to a Cluster.
type kubeconfig struct {
	origin origin
	// data is empty if there is no kubeconfig.
	data []byte
	// err is the cause if the kubeconfig is missing or must not be used.
	err error
}

// isUnread reports whether the kubeconfig could not be read. It may exist or not.
func (k kubeconfig) isUnread() bool {
	return len(k.data) == 0 && k.err != nil && !apierrors.IsNotFound(k.err)
}

// readKubeconfig reads the kubeconfig of a Cluster.
func (l *Links) readKubeconfig(ctx context.Context, cluster client.Object) kubeconfig {
	ctx, cancel := context.WithTimeout(ctx, kubeconfigReadTimeout)
	defer cancel()
	stored := &corev1.Secret{}
	// A rejected kubeconfig also replaces the previous one, which must not be used any longer. Each probe reads the
	// kubeconfig again.
	err := l.options.Kubeconfigs.Get(ctx, client.ObjectKey{
		Namespace: cluster.GetNamespace(), Name: secret.Name(cluster.GetName(), secret.Kubeconfig),
	}, stored, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", errNoKubeconfig, err)
	}
	data := stored.Data[secret.KubeconfigDataName]
	return kubeconfig{origin: origin{cluster: cluster.GetUID(), kubeconfig: sha256.Sum256(data)}, data: data, err: err}
}

// drop closes and removes the link to a Cluster.
func (l *Links) drop(cluster client.ObjectKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.links[cluster]; known != nil {
		known.downLocked()
		delete(l.links, cluster)
	}
	l.setReadsLocked(cluster, nil)
}

// downLocked closes a link.
func (k *link) downLocked() {
	if k.config == nil {
		return
	}
	// The method of http.Client does not unwrap transports.
	utilnet.CloseIdleConnectionsFor(k.config.Transport)
	k.config, k.client = nil, nil
	connected.Dec()
}

// upLocked opens a link.
func (k *link) upLocked(config *rest.Config, host *http.Client) {
	k.config, k.client = config, host
	connected.Inc()
}
