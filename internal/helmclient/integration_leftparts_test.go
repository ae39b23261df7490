// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// refuseParts makes the first deletions of parts of payloads fail. If failures is negative, all deletions fail.
func (b *bench) refuseParts(run *releaseRun, failures int) {
	config := sharedServer.Server(b.t).RESTConfig()
	config.WrapTransport = func(base http.RoundTripper) http.RoundTripper {
		return helmtest.RoundTripperFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == http.MethodDelete && strings.Contains(req.URL.Path, "/helmop.payload.") && failures != 0 {
				failures--
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Request: req, Body: http.NoBody}, nil
			}
			return base.RoundTrip(req)
		})
	}
	run.client, run.target.Config = New(testRunner), config
}

// TestIntegrationPartsAreDeletedOrReported checks that an uninstallation repeats a failed deletion of a part. The
// result reports parts that cannot be deleted.
func TestIntegrationPartsAreDeletedOrReported(t *testing.T) {
	for name, test := range map[string]struct{ failures, left int }{"once": {1, 0}, "always": {-1, 1}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.target.Storage.SplitAll = true
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.refuseParts(run, test.failures)
			decision, err := run.decideUninstall(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			result, err := run.act(t.Context(), decision)
			if err != nil || result.RecordsLeft != test.left ||
				(test.left > 0) != strings.Contains(result.RecordsLeftReason, records.LabelChunkOf+"=demo") {
				t.Errorf("%+v, %v", result, err)
			}
			if n := len(b.parts()); n != test.left {
				t.Errorf("%d parts are left", n)
			}
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationUninstallDeletesUnnamedParts checks that an uninstallation deletes the parts of a record that cannot
// be read or was never created. It keeps parts for which another action may create a record soon.
func TestIntegrationUninstallDeletesUnnamedParts(t *testing.T) {
	for name, test := range map[string]struct {
		later time.Duration
		left  int
	}{"young": {0, 2}, "old": {2 * records.ChunkGrace, 0}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.target.Storage.SplitAll = true
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			b.target.Storage.SplitAll = false
			b.newProcess(run)
			run.want("a2", helmtest.NewChart("2.0.0", helmtest.TwoConfigMaps()))
			run.mustSettle(t)
			b.spoilRecord(1, garble)
			// Another part belongs to an action that was interrupted before it wrote its record.
			b.target.Storage.SplitAll = true
			b.newProcess(run)
			b.cutter.Last = func(req *http.Request) bool {
				return req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/secrets")
			}
			run.want("a3", helmtest.NewChart("3.0.0", helmtest.TwoConfigMaps()))
			if _, err := run.actNow(t, model.ActionUpgrade); err == nil {
				t.Fatal("the upgrade was not cut off")
			}
			b.target.Storage.SplitAll = false
			b.newProcess(run)
			run.client.now = func() time.Time { return time.Now().Add(test.later) }
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(b.parts()); n != test.left {
				t.Errorf("%d parts are left", n)
			}
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationSlowStoreDeletesAfterAction checks that payloads in a store are deleted after the action. The deletion
// does not count for the timeout of the action.
func TestIntegrationSlowStoreDeletesAfterAction(t *testing.T) {
	b := newBench(t)
	store := newMemoryStore()
	b.target.Storage = model.Storage{Store: store, Outside: true}
	run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
	run.options.Upgrade.MaxHistory = new(2)
	run.mustSettle(t)
	for _, version := range []string{"2", "3"} {
		if version == "3" {
			store.fail = func(call string) error {
				if value, _ := b.configMapValue("first"); call == "delete" && value != "3" {
					t.Errorf("a payload is deleted while there is %q", value)
				}
				return nil
			}
		}
		run.want("a"+version, helmtest.NewChart(version+".0.0",
			map[string]string{"first.yaml": helmtest.ConfigMap("first", version)}))
		run.mustSettle(t)
	}
	b.wantRecords(run.desired, "3 deployed", "2 superseded")
	if store.count() != 2 {
		t.Errorf("%d payloads of two records", store.count())
	}
	// A failed action does not count as timed out because the store is slow after the failure.
	run.want("a4", helmtest.NewChart("4.0.0", map[string]string{"broken.yaml": helmtest.ConfigMap("Not_A_Name", "4")}))
	var err error
	for _, timeout := range shortTimeouts {
		began, isInTime := time.Now(), false
		store.fail = func(call string) error {
			if call == "delete" {
				isInTime = isInTime || time.Since(began) < timeout
				<-time.After(timeout)
			}
			return nil
		}
		run.options.Upgrade.Timeout = timeout
		decision := run.later(t, time.Hour) // Not earlier, because an earlier attempt may have failed.
		if decision.Action != model.ActionUpgrade {
			t.Fatalf("decided %+v", decision)
		}
		if _, err = run.act(t.Context(), decision); isInTime {
			break
		}
	}
	helmtest.WantError(t, err, nil, true)
}
