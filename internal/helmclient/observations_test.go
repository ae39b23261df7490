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
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObservations(t *testing.T) {
	t.Parallel()
	o := newObservations()
	now := testNow
	o.now = func() time.Time { return now }
	records := []metav1.PartialObjectMetadata{{}}
	key := func(name string) observationKey { return observationKey{namespace: "apps", name: name} }
	o.put(key("a"), now, records)
	if _, ok := o.take(observationKey{namespace: "apps", name: "a", user: "other"}); ok {
		t.Error("another user takes it")
	}
	if got, ok := o.take(key("a")); !ok || len(got) != 1 {
		t.Error("it is not there")
	}
	if _, ok := o.take(key("a")); ok {
		t.Error("it is there twice")
	}
	o.put(key("a"), now, records)
	o.drop(key("a"))
	if _, ok := o.take(key("a")); ok {
		t.Error("it is there after it was dropped")
	}
	o.put(key("old"), now, records)
	now = now.Add(observationTTL)
	if _, ok := o.take(key("old")); ok {
		t.Error("what is old was taken")
	}
	for i := range 3 * maxObservations {
		o.put(key(fmt.Sprint(i)), now, records)
	}
	if n := o.byKey.Len(); n != maxObservations {
		t.Errorf("%d are kept", n)
	}
}
