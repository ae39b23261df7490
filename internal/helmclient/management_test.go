// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

const (
	hereUID   = "2f9f3a1c-7f0a-4f2e-9d47-1a1f3b1b0c01"
	formerUID = "2f9f3a1c-7f0a-4f2e-9d47-1a1f3b1b0c02"
	otherUID2 = "2f9f3a1c-7f0a-4f2e-9d47-1a1f3b1b0c03"
)

func managedBy(uid string) func(*model.Record) {
	return func(r *model.Record) { r.ManagementCluster = uid }
}

// TestManagementCluster checks which releases are not changed because they belong to another management cluster.
func TestManagementCluster(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		record        string
		own           string
		former        []string
		takeOwnership bool
		wasOurs       bool
		advice        string
		want          model.Action
		uninstall     model.Action
	}{
		"own": {record: hereUID, own: hereUID, want: model.ActionNone,
			uninstall: model.ActionUninstall},
		"of an older version":               {own: hereUID, want: model.ActionNone, uninstall: model.ActionUninstall},
		"own management cluster is unknown": {record: otherUID2, want: model.ActionNone, uninstall: model.ActionUninstall},
		"moved": {record: formerUID, own: hereUID, former: []string{formerUID}, want: model.ActionNone,
			uninstall: model.ActionUninstall},
		"moved twice": {record: formerUID, own: hereUID, former: []string{otherUID2, formerUID}, want: model.ActionNone,
			uninstall: model.ActionUninstall},
		"other management cluster": {record: otherUID2, own: hereUID, want: model.ActionRefuse,
			uninstall: model.ActionRefuse, advice: "set install.takeOwnership"},
		"other management cluster, moved from a third": {record: otherUID2, own: hereUID, former: []string{formerUID},
			want:      model.ActionRefuse,
			uninstall: model.ActionRefuse},
		"adopted": {record: otherUID2, own: hereUID, takeOwnership: true, want: model.ActionAdopt,
			uninstall: model.ActionRefuse},
		"not taken back": {record: otherUID2, own: hereUID, takeOwnership: true, wasOurs: true,
			want: model.ActionRefuse, uninstall: model.ActionRefuse, advice: "request a retry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := helmtest.Desired()
			d.ManagementCluster, d.FormerManagementClusters = tc.own, tc.former
			obs := model.Observation{Records: []model.Record{helmtest.Record("deployed", 1, managedBy(tc.record))}}
			got := decide.Next(obs, d, model.Policy{TakeOwnership: tc.takeOwnership}, model.Past{WasOurs: tc.wasOurs},
				helmtest.Now)
			if got.Action != tc.want {
				t.Errorf("decided %+v, want %s", got, tc.want)
			}
			if got.Action == model.ActionRefuse &&
				(!strings.Contains(got.Message, tc.record) || !strings.Contains(got.Message, tc.advice)) {
				t.Errorf("the message %q does not name the management cluster and %q", got.Message, tc.advice)
			}
			if got := decide.Uninstall(obs, d, model.Policy{TakeOwnership: tc.takeOwnership},
				helmtest.Now); got.Action != tc.uninstall {
				t.Errorf("to uninstall: decided %+v, want %s", got, tc.uninstall)
			}
		})
	}
}

// TestRestoreUpgradesOncePerRequest checks that an upgrade without changes re-creates deleted objects, once for each
// request.
func TestRestoreUpgradesOncePerRequest(t *testing.T) {
	t.Parallel()
	obs := model.Observation{Records: []model.Record{helmtest.Record("deployed", 3)}}
	past := model.Past{Restore: true, Request: "ab"}
	got := decide.Next(obs, helmtest.Desired(), model.Policy{}, past, helmtest.Now)
	if got.Action != model.ActionUpgrade || got.Reason != decide.ReasonObjectsMissing || got.ToRevision != 4 ||
		got.Request != "ab" {
		t.Errorf("decided %+v", got)
	}
	obs.Records[0].Request = "ab"
	if got := decide.Next(obs, helmtest.Desired(), model.Policy{}, past, helmtest.Now); got.Action != model.ActionNone {
		t.Errorf("a request that was answered: %+v", got)
	}
	if got := decide.Next(obs, helmtest.Desired(), model.Policy{}, model.Past{Request: "cd"},
		helmtest.Now); got.Action != model.ActionNone {
		t.Errorf("without missing objects: %+v", got)
	}
}

// TestIntegrationTakeOver moves a release from one management cluster to another. The new manager changes only the
// label on all records, and the former manager does not change the release any more.
func TestIntegrationTakeOver(t *testing.T) {
	b := newBench(t)
	former := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	former.ManagementCluster = formerUID
	chrt := helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps())
	b.converge(former, chrt, map[string]any{"cidr": "1"})
	former.ValuesDigest = "v2"
	b.converge(former, chrt, map[string]any{"cidr": "2"})
	changed := former
	changed.ValuesDigest = "v3"
	const written = 1_000_000_000
	for revision, labels := range map[int]string{
		// An earlier takeover, by this former management cluster, did not reach the first record.
		1: fmt.Sprintf(`{%q:%q}`, model.LabelManagementCluster, otherUID2),
		// The newest record is old.
		2: fmt.Sprintf(`{%q:null,%q:"%d"}`, model.HelmLabelCreatedAt, model.HelmLabelModifiedAt, written),
	} {
		if _, err := b.kube.CoreV1().Secrets(b.namespace).Patch(t.Context(), records.NameOf("demo", revision),
			types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stale := []decide.Decision{
		decide.Uninstall(b.observe(former), former, model.Policy{}, time.Now()), b.decide(changed, model.Policy{}),
	}

	moved := former
	moved.ManagementCluster, moved.UID = hereUID, "uid-moved"
	moved.FormerManagementClusters = []string{otherUID2, formerUID}
	obs := b.observe(moved)
	if !obs.NamesFormer(moved) || obs.State(moved) != model.StateInSync {
		t.Fatalf("the release is not taken for that of the object which was moved: %+v", obs)
	}
	content := b.recordSecrets()
	if err := b.client.TakeOver(t.Context(), b.target, moved, obs); err != nil {
		t.Fatal(err)
	}
	if obs = b.observe(moved); obs.NamesFormer(moved) || obs.State(moved) != model.StateInSync || len(obs.Records) != 2 {
		t.Errorf("after the move: %+v", obs)
	}
	// The record still shows when the former object installed the release: a moved object is not a lost one.
	if record, ok := obs.Claimed(); !ok || record.UID != former.UID || !record.WrittenAt.Equal(time.Unix(written, 0)) ||
		!record.ChangedAt.After(record.WrittenAt) {
		t.Errorf("the newest record after the move: %+v", record)
	}
	for i, secret := range b.recordSecrets() {
		if string(secret.Data["release"]) != string(content[i].Data["release"]) ||
			secret.Labels[model.LabelManagementCluster] != hereUID {
			t.Errorf("record %s was changed, or has the label %q", secret.Name, secret.Labels[model.LabelManagementCluster])
		}
	}
	// The former management cluster is running again.
	if got := b.decide(former, model.Policy{}); got.Action != model.ActionRefuse {
		t.Errorf("the former one decides %+v", got)
	}
	for _, decision := range stale {
		_, err := b.act(decision, changed, chrt, map[string]any{"cidr": "3"})
		helmtest.WantError(t, err, helmerr.ErrStale, false, "belongs to the management cluster")
	}
	b.wantConfigMap("demo-value", "2")
	if err := b.client.TakeOver(t.Context(), b.target, moved, model.Observation{Records: []model.Record{
		{Revision: 2, Owner: moved.Owner, ManagementCluster: formerUID},
		{Revision: 7, Owner: moved.Owner, ManagementCluster: formerUID},
	}}); err != nil {
		t.Errorf("records that are taken over, or gone: %v", err)
	}
}
