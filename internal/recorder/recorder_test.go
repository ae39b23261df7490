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

package recorder

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// sink keeps what is written, and refuses to until a moment.
type sink struct {
	from time.Time

	mu      sync.Mutex
	created []string
	counted []string
}

func (s *sink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, s.write(&s.created, event)
}

func (s *sink) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return event, s.write(&s.counted, event)
}

func (s *sink) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return event, s.write(&s.counted, event)
}

func (s *sink) write(to *[]string, event *eventsv1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.from) {
		return errors.New("connection refused")
	}
	*to = append(*to, event.Regarding.Name+" "+event.Note)
	return nil
}

func object(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestRecorder holds that each Event is written, that nothing is left of it after some minutes (the bubble ends only when all goroutines have),
// and that one that comes again is counted for a while.
func TestRecorder(t *testing.T) {
	for name, tc := range map[string]struct {
		// refused is for how long the API server cannot be reached, apart what lies between two Events.
		refused, apart   time.Duration
		created, counted []string
	}{
		"counted":               {apart: 10 * time.Second, created: []string{"a is 1"}, counted: []string{"a is 1"}},
		"told again":            {apart: 2 * keptFor, created: []string{"a is 1", "a is 1"}},
		"much later":            {apart: time.Hour, created: []string{"a is 1", "a is 1"}},
		"cannot be written yet": {refused: 90 * time.Second, apart: 2 * time.Hour, created: []string{"a is 1", "a is 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &sink{from: time.Now().Add(tc.refused)}
				r := New(scheme.Scheme, "test", s, logr.Discard())
				r.Eventf(object("a"), nil, corev1.EventTypeNormal, "Done", "Do", "is %d", 1)
				<-time.After(tc.apart)
				r.Eventf(object("a"), nil, corev1.EventTypeNormal, "Done", "Do", "is %d", 1)
				<-time.After(keptFor + sentWithin)
				synctest.Wait()
				if !slices.Equal(s.created, tc.created) || !slices.Equal(s.counted, tc.counted) {
					t.Errorf("created %q, counted %q, want %q, %q", s.created, s.counted, tc.created, tc.counted)
				}
			})
		})
	}
}
