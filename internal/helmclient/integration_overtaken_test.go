// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// takeOver replaces a record and its payload, as another manager does after it considers the first manager dead.
func (b *bench) takeOver(key string) error {
	conn, err := New(testRunner).connections.Get(model.Target{Key: b.namespace,
		Config: sharedServer.Server(b.t).RESTConfig()})
	if err != nil {
		return err
	}
	held := conn.Records(b.t.Context(), b.namespace, b.target.Storage, nil)
	rls, err := held.Get(key)
	if err != nil {
		return err
	}
	rls.Manifest += "# of another manager\n"
	defer held.Finish("demo", time.Now(), false)
	return held.Replace(key, rls)
}

// TestIntegrationOvertakenActionWritesNoRecord checks that a late action does not write a record after another manager
// took over the release. The record would refer to a deleted payload.
func TestIntegrationOvertakenActionWritesNoRecord(t *testing.T) {
	for name, use := range storages() {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			kept := use(b)
			b.target.Storage.SplitAll = true
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			var once sync.Once
			var taken error
			config := sharedServer.Server(t).RESTConfig()
			config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
				return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
					if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/configmaps") {
						once.Do(func() { taken = b.takeOver(records.NameOf("demo", 2)) })
					}
					return base.RoundTrip(req)
				})
			}
			run.client, run.target.Config = New(testRunner), config
			run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"second.yaml": helmtest.ConfigMap("second", "2")}))
			_, err := run.actNow(t, model.ActionUpgrade)
			if taken != nil {
				t.Fatal(taken)
			}
			helmtest.WantError(t, err, helmerr.ErrStale, true, "another manager", "Helm revision 2")
			// Helm writes the previous revision first.
			b.wantRecords(run.desired, "2 pending-upgrade", "1 superseded")
			read, err := b.newRecords().Get(records.NameOf("demo", 2))
			if err != nil || !strings.Contains(read.Manifest, "another manager") {
				t.Errorf("what took over: %v", err)
			}
			if n := len(kept()); n != 2 {
				t.Errorf("%d payloads are kept of two records", n)
			}
			b.newProcess(run)
			run.mustSettle(t)
			b.wantConfigMap("second", "2")
		})
	}
}

// TestIntegrationPointerWrites checks that an action still writes its records after changed metadata or a lost
// response. A write of another process stops the action.
func TestIntegrationPointerWrites(t *testing.T) {
	b := newBench(t)
	b.createNamespace()
	b.target.Storage.SplitAll = true
	lost := 0
	config := sharedServer.Server(t).RESTConfig()
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			answer, err := base.RoundTrip(req)
			if err != nil || req.Method != http.MethodPut || lost == 0 {
				return answer, err
			}
			lost--
			return nil, errors.Join(helmtest.ErrCut, answer.Body.Close())
		})
	}
	b.target.Config = config
	held, key := b.newRecords(), records.NameOf("demo", 1)
	rls := helmtest.FullRelease()
	rls.Namespace, rls.Version, rls.Info.Status = b.namespace, 1, release.StatusPendingInstall
	if err := held.Create(key, rls); err != nil {
		t.Fatal(err)
	}
	update := func(store *records.Store, status release.Status) error {
		rls.Info.Status = status
		return store.Update(key, rls)
	}
	b.spoilRecord(1, func(secret *corev1.Secret) { secret.Labels["backup"] = "yes" })
	if err := update(held, release.StatusFailed); err != nil {
		t.Errorf("after a label: %v", err)
	}
	lost = 1
	if err := update(held, release.StatusPendingUpgrade); err != nil {
		t.Errorf("after a lost answer: %v", err)
	}
	lost = records.WriteTries
	if err := update(held, release.StatusSuperseded); err == nil || errors.Is(err, helmerr.ErrStale) {
		t.Errorf("without any answer: %v", err)
	}
	if err := update(held, release.StatusDeployed); err != nil {
		t.Errorf("after that: %v", err)
	}
	other := b.newRecords()
	if _, err := other.Get(key); err != nil {
		t.Fatal(err)
	}
	if err := update(other, release.StatusFailed); err != nil {
		t.Fatal(err)
	}
	updated := update(held, release.StatusDeployed)
	_, deleted := held.Delete(key)
	rls.Version = 2
	for what, err := range map[string]error{"update": updated, "delete": deleted,
		"create": held.Create(records.NameOf("demo", 2), rls)} {
		if !errors.Is(err, helmerr.ErrStale) {
			t.Errorf("%s after another's write: %v", what, err)
		}
	}
}
