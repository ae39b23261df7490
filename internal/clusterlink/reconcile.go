// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/safeconfig"
)

const (
	// probeInterval is the interval between probes of an API server without signs of life. probeTimeout is the timeout
	// of a probe.
	probeInterval, probeTimeout = 10 * time.Second, 5 * time.Second
	// maxVersionBytes is the maximum number of bytes that are read of a response.
	maxVersionBytes = 4 << 10
	// unreachableFailures is the number of failed probes in a row after which a Cluster is unreachable. confirmInterval
	// is the time between the first failure and the next probe. unreachableSpread is the period of the notifications
	// for the releases of an unreachable Cluster: each notification causes a write, so they are spread.
	unreachableFailures, confirmInterval, unreachableSpread = 2, 5 * time.Second, 3 * time.Second
	// maxFailures is the number of failed probes in a row after which the link is closed.
	maxFailures = 5
	// firstRetry is the delay after the first failed attempt to make a link. It doubles with each failure up to
	// retryInterval. After slowAfter failures, the delay is slowRetryInterval, because each attempt at an unreachable
	// API server occupies a worker.
	firstRetry, retryInterval, slowRetryInterval, slowAfter = 3 * time.Second, 30 * time.Second, time.Minute, 10
	// unreadTolerance is how long a kubeconfig that the manager cannot read is not reported as an error. For example, a
	// permission may be missing.
	unreadTolerance = 2 * time.Minute
	// readRetry is the delay after a failed read of a Cluster.
	readRetry = 10 * time.Second
	// configTimeout is the timeout of the configs that GetRESTConfig returns.
	configTimeout = 10 * time.Second
	// probePriority is the priority of probes and first retries in the queue. It is lower than the priority of new
	// Clusters and replaced kubeconfigs. failingPriority is the lowest priority, for further retries. In the outage of
	// a whole region, each of these retries occupies a worker until its timeout.
	probePriority, failingPriority = -200, -300
	// failing is the number of failures in a row after which a Cluster has failingPriority.
	failing = 3
)

var errUnauthorized = errors.New("the API server rejects the credentials in the kubeconfig")

// Reconcile makes, probes or closes the link to one Cluster.
func (l *Links) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	// The Cluster is not copied, because it is only read, and each probe reads it.
	if err := l.options.Clusters.Get(ctx, request.NamespacedName, cluster, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			l.drop(request.NamespacedName)
			return ctrl.Result{}, nil
		}
		return after(readRetry, 0), nil
	}
	if !isSet(cluster, "controlPlaneInitialized") {
		l.drop(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	known := l.linkOf(request.NamespacedName)
	wasUp, wasUnreachable := known.config != nil, known.state.IsUnreachable()
	if !wasUp && !isSet(cluster, "infrastructureProvisioned") {
		return ctrl.Result{}, nil
	}
	found := l.readKubeconfig(ctx, cluster)
	isNew := l.setSource(known, found)
	if isNew {
		l.ForgetReads(request.NamespacedName)
		if l.replaced != nil {
			l.replaced(request.NamespacedName)
		}
	}
	wait := l.check(ctx, known, found)
	isUp, isUnreachable := known.config != nil, known.state.IsUnreachable()
	if isUp != wasUp || isUp && isNew || isUnreachable != wasUnreachable {
		l.notify(ctx, cluster, isUnreachable)
	}
	return after(wait, known.state.Failures), nil
}

// after returns the result of a reconciliation. The next reconciliation is due after the delay. A part of the delay is
// random, so that Clusters are not all probed at the same time.
func after(wait time.Duration, failures int) ctrl.Result {
	priority := probePriority
	if failures >= failing {
		priority = failingPriority
	}
	return ctrl.Result{RequeueAfter: wait - wait/10 + rand.N(wait/5+1), Priority: &priority}
}

// isSet reports whether a field in the status.initialization of a Cluster is true.
func isSet(cluster *unstructured.Unstructured, field string) bool {
	set, _, _ := unstructured.NestedBool(cluster.Object, "status", "initialization", field)
	return set
}

// linkOf returns the link to a Cluster; the link may be closed. Only the worker that reconciles the Cluster changes the
// link.
func (l *Links) linkOf(cluster client.ObjectKey) *link {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.links[cluster]
	if known == nil {
		known = &link{}
		l.links[cluster] = known
	}
	return known
}

// setSource closes a link if its source has changed, and reports whether the source has changed. If the kubeconfig is
// missing, the link stays. If only the token has changed, the config stays, and an open link stays open. Running
// actions and watches continue with the new token.
func (l *Links) setSource(known *link, found kubeconfig) bool {
	if len(found.data) == 0 || found.origin == known.origin {
		return false
	}
	token := newToken(known, found)
	l.mu.Lock()
	defer l.mu.Unlock()
	known.origin = found.origin
	if token != nil {
		known.bearer.Store(token)
		if known.config != nil {
			known.state.LastTry = time.Time{} // A probe shows at once whether the token is valid.
			return false
		}
	} else {
		known.downLocked()
		known.made = nil
	}
	// Failures of the previous source do not count for the new source.
	known.state = State{}
	return true
}

// check makes or probes a link if this is due. It returns when the next check is due.
func (l *Links) check(ctx context.Context, known *link, found kubeconfig) time.Duration {
	began := l.now()
	if rest := l.interval(known)*9/10 - began.Sub(known.state.LastTry); !known.state.LastTry.IsZero() && rest > 0 {
		return rest
	}
	if known.config == nil {
		l.connect(ctx, known, found)
		return l.interval(known)
	}
	if err := l.probe(ctx, known.client, known.config); l.handleProbe(ctx, known, began, err) {
		// The credentials may have been replaced. So the next check reads the kubeconfig at once.
		return time.Millisecond
	}
	if wait := l.interval(known); wait != confirmInterval {
		return wait
	}
	// The second probe begins confirmInterval after the start of the first one. The first probe may have taken all this
	// time.
	return max(confirmInterval-l.now().Sub(began), time.Millisecond)
}

// interval returns the interval between two attempts.
func (l *Links) interval(k *link) time.Duration {
	switch {
	case k.config == nil:
		return k.retryInterval()
	case k.isAlive(l.maxSilence) && k.pulse.isServed():
		return servedInterval
	case k.isAlive(l.maxSilence):
		return aliveInterval
	case k.state.Failures > 0 && !k.state.IsUnreachable():
		return confirmInterval
	default:
		return probeInterval
	}
}

func (k *link) retryInterval() time.Duration {
	if k.state.Failures >= slowAfter {
		return slowRetryInterval
	}
	return backoff.Exponential(firstRetry, retryInterval, k.state.Failures-1)
}

// connect makes a link if the API server responds.
func (l *Links) connect(ctx context.Context, known *link, found kubeconfig) {
	log := ctrl.LoggerFrom(ctx)
	if known.isUnread(found, l.now()) {
		// The manager could not read the kubeconfig, because it just started or has no permission. The Cluster may be
		// reachable, so this does not count as an attempt.
		log.V(1).Info("Cannot read the kubeconfig; retrying", "reason", found.err.Error())
		return
	}
	began := l.now()
	var host *http.Client
	config, err := l.prepare(known, found)
	if err == nil {
		host = &http.Client{Transport: config.Transport}
		err = l.try(ctx, host, config)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.recordLocked(l.now(), err)
	if err != nil {
		if known.state.Failures == 1 {
			log.Info("Cannot connect to the Cluster; retrying", "reason", err.Error())
		}
		return
	}
	known.upLocked(config, host)
	log.V(2).Info("Connected to the Cluster", "duration", l.now().Sub(began))
}

// try probes an API server without a link. After a failure, the next attempt uses another connection, because several
// servers may share the address, and some of them may be healthy.
func (l *Links) try(ctx context.Context, host *http.Client, config *rest.Config) error {
	err := l.probe(ctx, host, config)
	if err != nil {
		utilnet.CloseIdleConnectionsFor(config.Transport)
	}
	return err
}

// prepare returns the config for the kubeconfig of a Cluster. If the kubeconfig has not changed, it returns the same
// config as before.
func (l *Links) prepare(known *link, found kubeconfig) (*rest.Config, error) {
	if found.err != nil {
		return nil, found.err
	}
	if known.made != nil && found.origin == known.origin {
		return known.made, nil
	}
	config, settings, err := parseKubeconfig(found.data)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	if why := safeconfig.Refusal(config); why != "" {
		return nil, fmt.Errorf("kubeconfig not accepted: %s", why)
	}
	config.UserAgent, config.Timeout = l.options.UserAgent, configTimeout
	signs, token := newPulse(), takeBearer(config, settings)
	made, err := withTransport(config, l.options.RefuseLocal, signs)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig not accepted: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.origin, known.made, known.pulse, known.bearer = found.origin, made, signs, token
	return made, nil
}

// handleProbe records the result of a probe. It reports whether it closed the link because of rejected credentials.
func (l *Links) handleProbe(ctx context.Context, known *link, began time.Time, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known.recordLocked(l.now(), err)
	known.state.LastTry = began
	refused := errors.Is(err, errUnauthorized)
	if !refused && known.state.Failures < maxFailures {
		return false
	}
	ctrl.LoggerFrom(ctx).Info("Lost the connection to the Cluster; retrying", "reason", err.Error())
	known.downLocked()
	if refused {
		known.state.LastTry = time.Time{}
	}
	return refused
}

// recordLocked records the result of an attempt.
func (k *link) recordLocked(now time.Time, err error) {
	k.state.LastTry, k.state.Cause = now, causeOf(err)
	if err != nil {
		k.state.Failures++
		probes.WithLabelValues("error").Inc()
		return
	}
	k.state.LastAnswer, k.state.Failures = now, 0
	k.pulse.answered()
	probes.WithLabelValues("success").Inc()
}

// askVersion requests the version of an API server. This is the smallest resource that all users may read and that
// needs valid credentials. A server that answers Forbidden or TooManyRequests is healthy.
func askVersion(ctx context.Context, host *http.Client, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url.JoinPath("version").String(), nil)
	if err != nil {
		return err
	}
	resp, err := host.Do(req)
	if err != nil {
		return err
	}
	// The response is read to its end. Otherwise, HTTP/2 would reset the stream, and HTTP/1 would open another
	// connection.
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxVersionBytes))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests:
		return nil
	case http.StatusUnauthorized:
		return errUnauthorized
	default:
		return fmt.Errorf("the API server responded with %s", resp.Status)
	}
}
