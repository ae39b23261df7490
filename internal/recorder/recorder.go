/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package recorder records Events by client-go, and has it forget them soon: client-go keeps
// each for up to 12 minutes, 1.5 kB and more, to count how often it comes again. Those of
// releases hardly do, for they refer to a version of an object; and a change of thousands of
// releases makes thousands of them.
package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

const (
	// keptFor is for how long Events go to the same broadcaster, which counts them together.
	keptFor = time.Minute
	// sentWithin is how long it takes at most to write an Event after that: client-go tries twelve times, ten seconds and a bit apart.
	sentWithin = 3 * time.Minute
)

// Recorder records Events. It is safe for concurrent use, and takes nothing while there is nothing to record. Of an Event that is
// recorded again and again, each minute's are counted together.
type Recorder struct {
	scheme *runtime.Scheme
	name   string
	sink   events.EventSink
	log    logr.Logger

	mu      sync.Mutex
	current events.EventRecorder
}

var _ events.EventRecorder = &Recorder{}

// New returns a Recorder of a controller of that name, whose Events go to a sink.
func New(scheme *runtime.Scheme, name string, sink events.EventSink, log logr.Logger) *Recorder {
	return &Recorder{scheme: scheme, name: name, sink: sink, log: log}
}

// Eventf implements events.EventRecorder.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil {
		r.current = r.open()
	}
	r.current.Eventf(regarding, related, eventType, reason, action, note, args...)
}

// open returns a recorder that is in use for a while, and then gone.
func (r *Recorder) open() events.EventRecorder {
	broadcaster := events.NewBroadcaster(r.sink)
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), r.log))
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		r.log.Error(err, "Events are not recorded")
	}
	if _, err := broadcaster.StartLogging(r.log.V(1)); err != nil {
		r.log.Error(err, "Events are not logged")
	}
	time.AfterFunc(keptFor, func() {
		r.mu.Lock()
		r.current = nil
		r.mu.Unlock()
		time.AfterFunc(sentWithin, func() {
			broadcaster.Shutdown()
			cancel()
		})
	})
	return broadcaster.NewRecorder(r.scheme, r.name)
}
