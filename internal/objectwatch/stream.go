// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/backoff"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// settleTime is how long a new stream waits for more releases to join. rejoinTime is how long it waits before it
	// restarts for a later one: the charts of a new Cluster are installed within seconds, and each restart costs a full
	// list.
	settleTime, rejoinTime = 200 * time.Millisecond, time.Second
	// minPause and maxPause bound the pause after a stream broke; each is twice the one before.
	minPause, maxPause = time.Second, 30 * time.Second
	// quietPause is the pause where a quick change is unlikely: rights that are missing.
	quietPause = 2 * time.Minute
	// eventPatience is how long a large event waits for its share of the memory.
	eventPatience = 30 * time.Second
	// steadyTime is how long a stream must have lasted for its next pause to be short.
	steadyTime = time.Minute
)

// maxStreams bounds the streams of one cluster under one identity, because charts and clusters determine the kinds.
// Each stream costs some kilobytes here, and a watch in the cluster.
const maxStreams = 500

var errTooManyStreams = errors.New("too many kinds or namespaces are watched in the cluster")

// mode is which part of objects a stream receives.
type mode uint8

const (
	// whole shows objects in full, for their health.
	whole mode = iota
	// metadataOnly shows their metadata.
	metadataOnly
	// helmRecords shows the metadata of the Secrets in which Helm keeps releases.
	helmRecords
	// listed shows whether objects exist, by a list from time to time: see lists.go.
	listed
)

// streamKey identifies a stream of a link.
type streamKey struct {
	resource schema.GroupVersionResource
	kind     schema.GroupKind
	// namespace is empty for all; name is empty but for an object that has lost Helm's label.
	namespace, name string
	mode            mode
}

// objectKey names an object within a stream; of Helm's records, the release.
type objectKey struct{ namespace, name string }

// target is a follower of an object: a release, and the index of the object in it.
type target struct {
	release *release
	index   int
}

// stream is one watch. The Watcher's lock guards its fields.
type stream struct {
	link *link
	key  streamKey
	// wanted holds the followers of each object. Other objects are not kept.
	wanted map[objectKey][]target
	// run is the generation of the stream: results of earlier runs are ignored.
	run    int
	cancel context.CancelFunc
	// settling is true until the run sends its first request; releases may join without a restart.
	settling bool
	trouble  trouble
	// listedAt is when a stream of the mode listed was last listed.
	listedAt time.Time
}

// beginLocked starts, or restarts, the stream with a list of its objects.
func (s *stream) beginLocked() {
	if s.settling || s.key.mode == listed {
		return
	}
	settle := settleTime
	switch {
	case s.cancel != nil:
		settle = rejoinTime
		s.cancel()
	case s.link.begun >= s.link.watcher.maxStreams:
		s.failLocked(fmt.Errorf("watching %s: %w (%d watches)", s.describe(), errTooManyStreams, s.link.begun))
		return
	default:
		s.link.begun++
	}
	ctx, cancel := context.WithCancel(s.link.ctx)
	s.run++
	s.cancel, s.settling = cancel, true
	run := s.run
	s.link.watcher.goLocked(func() {
		if pause(ctx, settle) && s.settled(run) {
			s.follow(ctx, run)
		}
	})
}

// follow keeps the stream going until the context ends.
func (s *stream) follow(ctx context.Context, run int) {
	f := feed{stream: s, run: run}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := f.advance(ctx)
		lasted := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return
		case lasted >= steadyTime:
			failures = 0
		}
		if !s.broke(run, err) {
			return
		}
		if err == nil && (lasted >= minPause || f.isFresh()) {
			continue
		}
		wait := backoff.Exponential(minPause, maxPause, failures)
		if apierrors.IsForbidden(err) {
			wait = quietPause
		}
		failures++
		// A whole fleet must not come back in the same moment.
		if !pause(ctx, backoff.Spread(wait)) {
			return
		}
	}
}

// pause waits and reports whether the context is still alive.
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

func (s *stream) settled(run int) bool {
	s.link.watcher.mu.Lock()
	defer s.link.watcher.mu.Unlock()
	if s.run != run {
		return false
	}
	s.settling = false
	return true
}

// broke takes note of why the stream broke, nil if it ended in good order, and reports whether it goes on.
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
		s.link.goneLocked(s.key.resource, err)
		return false
	case apierrors.IsForbidden(err) && s.key.namespace == "" && s.link.narrowLocked(s):
		return false
	case apierrors.IsForbidden(err):
		s.failLocked(fmt.Errorf("%w %s: %s", ErrForbidden, s.describe(), shorten(err)))
	default:
		s.failLocked(fmt.Errorf("watching %s: %s", s.describe(), shorten(err)))
	}
	return true
}

// failLocked records an error. It notifies releases that wait for their first state, and all releases if the error is a
// missing permission or lasts long: short errors say nothing about a release.
func (s *stream) failLocked(err error) {
	changed := s.trouble.set(err)
	forbidden := errors.Is(err, ErrForbidden)
	if changed {
		s.tellLocked(func(r *release) bool { return forbidden || r.unknown > 0 })
	}
	if s.trouble.isStuck(s.link.watcher.stuckAfter) {
		s.tellStuckLocked()
	}
}

// tellStuckLocked requests the releases that have not been notified of a lasting error.
func (s *stream) tellStuckLocked() {
	asked := map[*release]struct{}{}
	for _, targets := range s.wanted {
		for _, t := range targets {
			if _, ok := asked[t.release]; !ok {
				asked[t.release] = struct{}{}
				s.link.watcher.stuckLocked(t.release)
			}
		}
	}
}

// wellLocked forgets an error.
func (s *stream) wellLocked() {
	told := s.trouble.lasts || errors.Is(s.trouble.err, ErrForbidden)
	s.trouble = trouble{}
	s.link.servedLocked(s.key.resource)
	if told {
		s.tellLocked(func(*release) bool { return true })
	}
}

// tellLocked asks for the releases that follow something in this stream.
func (s *stream) tellLocked(concerns func(*release) bool) {
	for _, targets := range s.wanted {
		for _, t := range targets {
			if concerns(t.release) {
				s.link.watcher.notifier.changed(t.release.key)
			}
		}
	}
}

func (s *stream) describe() string {
	text := s.key.resource.GroupResource().String()
	if s.key.namespace != "" {
		text += " in namespace " + s.key.namespace
	}
	return text
}

// shorten bounds the text of an error. API servers name users and objects in it, never contents.
func shorten(err error) string {
	return truncate.Text(err.Error(), 512)
}
