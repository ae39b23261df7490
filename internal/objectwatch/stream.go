// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// settleTime is how long a new stream waits for more releases to join. rejoinTime is how long it waits before it
	// restarts for a release that joins later. The charts of a new Cluster are installed within seconds, and each restart
	// costs a full list.
	settleTime, rejoinTime = 200 * time.Millisecond, time.Second
	// minPause and maxPause bound the pause after a stream broke, or ended soon. The pause doubles each time.
	minPause, maxPause = time.Second, 30 * time.Second
	// quietPause is the pause after an error that usually does not end soon, such as missing permissions.
	quietPause = 2 * time.Minute
	// memoryWait is how long a large event waits for its share of the memory.
	memoryWait = 30 * time.Second
	// widenAfter is the time after which HelmOp checks whether an identity may watch all namespaces again.
	widenAfter = time.Hour
	// steadyTime is how long a request must last before no pause follows its regular end, and before the pause after a
	// failure is short again. So no stream sends requests more often than a failing one. Proxies often end watches after
	// 50 or 60 seconds without events.
	steadyTime = maxPause
)

// maxStreams bounds the streams of one cluster under one identity, because users choose the kinds with charts and
// clusters. Each stream costs some kilobytes in the manager, and a watch in the cluster.
const maxStreams = 500

var errTooManyStreams = errors.New("too many kinds or namespaces are watched in the cluster")

// mode is the part of objects that a stream receives.
type mode uint8

const (
	// whole is the full object, for its health.
	whole mode = iota
	// metadataOnly is the metadata of an object.
	metadataOnly
	// helmRecords is the metadata of the Secrets in which Helm stores releases.
	helmRecords
	// listed is the existence of objects, determined by periodic lists: see lists.go.
	listed
)

// streamKey identifies a stream of a link.
type streamKey struct {
	resource schema.GroupVersionResource
	kind     schema.GroupKind
	// namespace is empty for all namespaces. name is empty, except for an object that lost Helm's label.
	namespace, name string
	mode            mode
}

// objectKey is the name of an object within a stream. For Helm's records, it is the name of the release.
type objectKey struct{ namespace, name string }

// target is a follower of an object: a release, and the index of the object in the release.
type target struct {
	release *release
	index   int
}

func (t target) expectsOtherNamespaces() bool { return t.release.otherNamespaces }

// stream is one watch. The Watcher's lock guards its fields.
type stream struct {
	link *link
	key  streamKey
	// followers are the followers of each object. Objects without followers are not kept.
	followers map[objectKey][]target
	// run is the number of the current run. Results of earlier runs are ignored. For the mode listed, a run begins with
	// each request for a list.
	run    int
	cancel context.CancelFunc
	// settling is true until the run sends its first request. Until then, releases may join without a restart.
	settling bool
	// list is the last complete list of the run; zero if there is none.
	list listID
	// awaited are the followers whose first event is awaited: see awaitLocked.
	awaited map[target]struct{}
	// scope is the only namespace that the run, or the last list, requests; empty for all namespaces of key. An identity
	// that may not watch all namespaces so needs no refused request to find this out.
	scope   string
	failure failure
	// plain is true if streaming lists begin and never end. An aggregated API server may serve the kind, so this does not
	// apply to the whole link. plain stays true for later runs: each of them would wait for the end of the list again.
	plain bool
	// listedAt is when a stream of the mode listed was last listed; zero if a list is due. A failed list is not repeated
	// before retryAt, not even on request.
	listedAt, retryAt time.Time
}

// beginLocked starts, or restarts, the stream with a list of its objects.
func (s *stream) beginLocked() {
	if s.settling || s.key.mode == listed {
		return
	}
	switch {
	case s.cancel != nil:
		s.runLocked(rejoinTime)
	case s.link.begun >= s.link.watcher.maxStreams:
		// Each object that joins the stream gets here.
		if _, isWaiting := s.link.waiting.due(s); !isWaiting {
			s.failLocked(fmt.Errorf("watching %s: %w (%d watches)", s.describe(), errTooManyStreams, s.link.begun))
			s.link.waiting.set(s, s.failure.since)
		}
	default:
		s.link.begun++
		s.link.waiting.remove(s)
		s.runLocked(settleTime)
	}
}

// runLocked ends the present run, and begins the next one after a time.
func (s *stream) runLocked(settle time.Duration) {
	if s.cancel != nil {
		s.cancel()
	}
	ctx, cancel := context.WithCancel(s.link.ctx)
	s.run++
	s.cancel, s.settling, s.list, s.awaited = cancel, true, listID{}, nil
	f := &feed{stream: s, run: s.run, ctx: ctx, latest: listID{run: s.run}}
	s.link.watcher.goLocked(func() {
		if pause(ctx, settle) && f.settled() {
			f.follow()
		}
	})
}

// follow sends the requests of a run, until its context ends or a watch is open. An open watch continues in other
// goroutines: see feed.await.
func (f *feed) follow() {
	for f.ctx.Err() == nil {
		if f.widen(f.ctx) {
			return
		}
		f.began = time.Now()
		err := f.advance()
		if f.open != nil {
			f.await()
			return
		}
		if !f.rest(err) {
			return
		}
	}
}

// rest handles the end of a request, and waits before the next one. It returns false if the run has ended.
func (f *feed) rest(err error) bool {
	isSteady, justListed := time.Since(f.began) >= steadyTime, f.wasJustListed()
	switch {
	case f.ctx.Err() != nil:
		return false
	case isSteady && !isLate(err) && !errors.Is(err, errTimeout):
		f.failures = 0
	}
	if !f.stream.broke(f.run, err) {
		return false
	}
	if err == nil && (isSteady || justListed) {
		return true
	}
	wait := backoff.Exponential(minPause, maxPause, f.failures)
	if apierrors.IsForbidden(err) {
		wait = quietPause
	}
	f.failures++
	// The streams of a whole fleet must not restart at the same time.
	return pause(f.ctx, backoff.Spread(wait))
}

// pause waits, and returns false if the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// isPlain reports whether streaming lists of the stream, or of the whole cluster, are known to fail.
func (s *stream) isPlain() bool {
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	return s.plain || s.link.plain
}

// setPlain records that streaming lists of the stream have no end.
func (s *stream) setPlain() {
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	s.plain = true
}

// settled ends the time in which releases join without a restart. It returns false if the run has ended.
func (f *feed) settled() bool {
	s := f.stream
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != f.run {
		return false
	}
	s.settling = false
	f.scope = s.limitLocked()
	return true
}

// limitLocked limits the next run or list to the namespace of the followed objects, if there is only one. A run is not
// limited if releases in other namespaces are expected. It returns the scope.
func (s *stream) limitLocked() string {
	s.scope = ""
	for at, targets := range s.followers {
		if at.namespace == "" || s.scope != "" && at.namespace != s.scope ||
			s.key.mode != listed && slices.ContainsFunc(targets, target.expectsOtherNamespaces) {
			s.scope = ""
			break
		}
		s.scope = at.namespace
	}
	return s.scope
}

// widen returns true if the stream of one namespace has ended because the identity may list all namespaces again. It
// checks this before a request, about once an hour for all streams of a kind.
func (f *feed) widen(ctx context.Context) bool {
	s, w := f.stream, f.stream.link.watcher
	w.mu.Lock()
	checkedAt, ok := s.link.narrow[s.key.narrowed()]
	isDue := ok && s.run == f.run && s.isNarrow() && time.Since(checkedAt) >= widenAfter
	if isDue {
		s.link.narrow[s.key.narrowed()] = time.Now()
	}
	w.mu.Unlock()
	if !isDue {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if _, err := f.page(ctx, "", metav1.ListOptions{Limit: 1, LabelSelector: f.labels()}); err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.run == f.run {
		s.link.widenLocked(s)
	}
	return s.run != f.run
}

// isWide reports whether the run, or the last list, requests all namespaces.
func (s *stream) isWide() bool { return s.key.namespace == "" && s.scope == "" }

// broke records why the stream ended, and reports whether the stream continues. The error is nil for a regular end.
func (s *stream) broke(run int, err error) bool {
	w := s.link.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.run != run:
		return false
	case err == nil:
		return true
	case apierrors.IsNotFound(err) && s.key.mode != helmRecords:
		s.link.unservedLocked(s.key.resource, err)
		return false
	case apierrors.IsForbidden(err) && s.isWide() && s.link.narrowLocked(s):
		return false
	case apierrors.IsForbidden(err):
		s.failLocked(fmt.Errorf("%w %s: %s", ErrForbidden, s.describe(), shorten(err)))
	default:
		s.failLocked(fmt.Errorf("watching %s: %s", s.describe(), shorten(err)))
	}
	return true
}

// failLocked records an error. It notifies releases that wait for their first state. If the error is a missing
// permission or lasts long, it notifies all releases. A short error does not affect a release.
func (s *stream) failLocked(err error) {
	w := s.link.watcher
	isNew, isStuck := s.failure.set(err), s.failure.isStuck(w.stuckAfter)
	if !isNew && !isStuck {
		return
	}
	concerned, isForbidden := s.releasesLocked(), errors.Is(err, ErrForbidden)
	for r := range concerned {
		if isNew && (isForbidden || r.unknown > 0) {
			w.notifier.changed(r.key)
		}
	}
	if isStuck {
		w.requestFailureLocked(concerned)
	}
}

// clearFailureLocked clears the error of the stream. It notifies all releases if one of their passes may have reported
// the error: each pass reports a lasting error, also before failLocked notifies its release.
func (s *stream) clearFailureLocked() {
	reported := s.failure.isStuck(s.link.watcher.stuckAfter) || errors.Is(s.failure.err, ErrForbidden)
	s.failure = failure{}
	s.link.servedLocked(s.key.resource)
	if reported {
		s.link.watcher.requestLocked(s.releasesLocked())
	}
}

// releasesLocked returns the releases that follow something in this stream.
func (s *stream) releasesLocked() releases {
	found := releases{}
	for _, targets := range s.followers {
		for _, t := range targets {
			found[t.release] = struct{}{}
		}
	}
	return found
}

func (s *stream) describe() string {
	text := s.key.resource.GroupResource().String()
	if !s.isWide() {
		text += " in namespace " + cmp.Or(s.key.namespace, s.scope)
	}
	return text
}

// shorten bounds the text of an error. API servers name users and objects in the error, but no content of objects. The
// text has no URL: that of a watch has a random timeout, so the text would be new at each try.
func shorten(err error) string {
	for request := (*url.Error)(nil); errors.As(err, &request); {
		err = request.Err
	}
	return truncate.Text(err.Error(), 512)
}
