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

package helmclient

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// observationTTL is how long after an observation an action takes it for what the cluster holds. An action that began
	// by reading the history would be as far behind when it writes; a revision that somebody made meanwhile refuses the
	// record of ours.
	observationTTL = 5 * time.Second
	// maxObservations bounds the observations that are kept of one cluster.
	maxObservations = 200
)

// observations keeps what was observed a moment ago for the actions that follow. It is safe for concurrent use.
type observations struct {
	now func() time.Time

	mu     sync.Mutex
	byName map[string]observedRecords
}

type observedRecords struct {
	at      time.Time
	records []metav1.PartialObjectMetadata
}

func newObservations() *observations {
	return &observations{now: time.Now, byName: map[string]observedRecords{}}
}

// put keeps the metadata of a release's records, as they were at a time.
func (o *observations) put(name string, at time.Time, records []metav1.PartialObjectMetadata) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.byName) >= maxObservations {
		for other, observed := range o.byName {
			if o.now().Sub(observed.at) >= observationTTL {
				delete(o.byName, other)
			}
		}
	}
	if len(o.byName) >= maxObservations {
		clear(o.byName)
	}
	o.byName[name] = observedRecords{at: at, records: records}
}

// take returns what was observed a moment ago, once.
func (o *observations) take(name string) ([]metav1.PartialObjectMetadata, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	observed, ok := o.byName[name]
	delete(o.byName, name)
	return observed.records, ok && o.now().Sub(observed.at) < observationTTL
}
