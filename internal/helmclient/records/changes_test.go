// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// listed returns the records of the release, as an observation lists them.
func (b *bench) listed() model.Observation {
	b.t.Helper()
	objects, err := b.newRecords().ListMetadata(Selector("demo"))
	if err != nil {
		b.t.Fatal(err)
	}
	var found model.Observation
	for i := range objects {
		if record, ok := FromMetadata(&objects[i].ObjectMeta); ok {
			found.Records = append(found.Records, record)
		}
	}
	slices.SortFunc(found.Records, func(a, b model.Record) int { return b.Revision - a.Revision })
	return found
}

// TestIntegrationRecordsChanges checks that the changes of an action are those that a list shows after it. They are not
// known if another program has written a record meanwhile, or if a response was lost.
func TestIntegrationRecordsChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		// before happens before the writes of the action. loses is true if the response to the first one is lost.
		before func(*bench)
		loses  bool
		want   bool
	}{
		"nothing":            {want: true},
		"a record is copied": {before: func(b *bench) { b.copyRecord(1) }},
		"a label is added":   {before: func(b *bench) { b.change(func(s *corev1.Secret) { s.Labels["backup"] = "1" }) }},
		"a lost response":    {loses: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createRecords(release.StatusSuperseded, release.StatusDeployed)
			loses := false
			b.config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
				return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
					response, err := base.RoundTrip(req)
					if err != nil || req.Method != http.MethodPut || !loses {
						return response, err
					}
					loses = false
					return nil, errors.Join(response.Body.Close(), helmtest.ErrCut)
				})
			}
			store := b.newRecords()
			_, listErr := store.History("demo")
			_, readErr := store.Get(NameOf("demo", 1))
			if listErr != nil || readErr != nil {
				t.Fatal(listErr, readErr)
			}
			if tc.before != nil {
				tc.before(b)
			}
			before := b.listed()
			loses = tc.loses
			b.act(store)
			var promised model.Observation
			changes := store.Changes()
			ok := changes != nil
			if ok {
				promised, ok = before.After(changes)
			}
			if ok != tc.want {
				t.Errorf("the changes are known: %t", ok)
			}
			if now := b.listed(); ok && !slices.Equal(promised.Records, now.Records) {
				t.Errorf("promised\n%+v\ngot\n%+v", promised.Records, now.Records)
			}
		})
	}
}

// act writes Helm revision 1, deletes revision 2 and creates revision 3.
func (b *bench) act(store *Store) {
	b.t.Helper()
	written := helmtest.FullRelease()
	written.Namespace, written.Version, written.Info.Status = b.namespace, 1, release.StatusFailed
	if err := store.Update(NameOf("demo", 1), written); err != nil {
		b.t.Fatal(err)
	}
	if _, err := store.Delete(NameOf("demo", 2)); err != nil {
		b.t.Fatal(err)
	}
	created := helmtest.FullRelease()
	created.Namespace, created.Version = b.namespace, 3
	if err := store.Create(NameOf("demo", 3), created); err != nil {
		b.t.Fatal(err)
	}
}

// copyRecord copies the Secret of a Helm revision under another name, as a user does for a backup.
func (b *bench) copyRecord(revision int) {
	b.t.Helper()
	secrets := b.kube.CoreV1().Secrets(b.namespace)
	secret, err := secrets.Get(b.t.Context(), NameOf("demo", revision), metav1.GetOptions{})
	if err == nil {
		secret.ObjectMeta = metav1.ObjectMeta{Name: "copy", Labels: secret.Labels}
		_, err = secrets.Create(b.t.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
