// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
)

func TestObservations(t *testing.T) {
	t.Parallel()
	o := NewObservations()
	now := helmtest.Now
	o.Now = func() time.Time { return now }
	records := []metav1.PartialObjectMetadata{{}}
	key := func(name string) ObservationKey { return ObservationKey{Namespace: "apps", Name: name} }
	o.Put(key("a"), now, records, 0)
	if _, ok := o.Take(ObservationKey{Namespace: "apps", Name: "a", User: "other"}); ok {
		t.Error("another user gets the observation")
	}
	if got, ok := o.Take(key("a")); !ok || len(got) != 1 {
		t.Error("the observation is missing")
	}
	if _, ok := o.Take(key("a")); ok {
		t.Error("the observation was returned twice")
	}
	o.Put(key("a"), now, records, 0)
	o.Drop(key("a"))
	if _, ok := o.Take(key("a")); ok {
		t.Error("the observation exists after Drop")
	}
	o.Put(key("old"), now, records, 0)
	now = now.Add(observationTTL)
	if _, ok := o.Take(key("old")); ok {
		t.Error("an old observation was returned")
	}
	if kept, _ := o.byKey.Stats(); kept != 0 {
		t.Error("an old observation is kept")
	}
	o.Put(key("old"), now, records, 0)
	now = now.Add(observationTTL)
	o.Put(key("new"), now, records, 0)
	if kept, _ := o.byKey.Stats(); kept != 1 {
		t.Errorf("%d observations are kept after one has expired", kept)
	}
	for i := range 100 {
		o.Put(key(fmt.Sprint(i)), now, records, maxObservations/10)
	}
	if kept, bytes := o.byKey.Stats(); kept != 9 || bytes > maxObservations {
		t.Errorf("%d are kept, with %d bytes", kept, bytes)
	}
}

// TestTrim checks that only the metadata is kept that an action reads.
func TestTrim(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1000)
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "b", GenerateName: text,
		Labels: map[string]string{"c": text}, Annotations: map[string]string{"d": text}, Finalizers: []string{text},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: text}}}}
	want := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "b", Labels: object.Labels}}
	got, size := Trim(&object)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if size < 1000 || size > 2000 {
		t.Errorf("%d bytes", size)
	}
}
