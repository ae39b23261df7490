// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"fmt"
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
	o.Put(key("a"), now, records)
	if _, ok := o.Take(ObservationKey{Namespace: "apps", Name: "a", User: "other"}); ok {
		t.Error("another user gets the observation")
	}
	if got, ok := o.Take(key("a")); !ok || len(got) != 1 {
		t.Error("the observation is missing")
	}
	if _, ok := o.Take(key("a")); ok {
		t.Error("the observation was returned twice")
	}
	o.Put(key("a"), now, records)
	o.Drop(key("a"))
	if _, ok := o.Take(key("a")); ok {
		t.Error("the observation exists after Drop")
	}
	o.Put(key("old"), now, records)
	now = now.Add(observationTTL)
	if _, ok := o.Take(key("old")); ok {
		t.Error("an old observation was returned")
	}
	for i := range 3 * maxObservations {
		o.Put(key(fmt.Sprint(i)), now, records)
	}
	if n := o.byKey.Len(); n != maxObservations {
		t.Errorf("%d are kept", n)
	}
}
