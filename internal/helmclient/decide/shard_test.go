// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestDecideWaitsForOtherShard checks an action of the manager of another shard, which managed the release before. The
// decision is to wait for it as long as for an action of another owner, and to check the release often.
func TestDecideWaitsForOtherShard(t *testing.T) {
	t.Parallel()
	inShard := func(shard string) func(*model.Record) { return func(r *model.Record) { r.Shard = shard } }
	for name, tc := range map[string]struct {
		record             model.Record
		shard              string
		want, wantOnDelete model.Action
	}{
		"own, no shard": {helmtest.Record("pending-upgrade", 1), "", model.ActionRecoverThenUpgrade,
			model.ActionUninstall},
		"own, in a shard": {helmtest.Record("pending-upgrade", 1, inShard("b")), "b",
			model.ActionRecoverThenUpgrade, model.ActionUninstall},
		"taken into a shard": {helmtest.Record("pending-upgrade", 1), "b", model.ActionWait, model.ActionWait},
		"taken out of a shard": {helmtest.Record("pending-upgrade", 1, inShard("b")), "", model.ActionWait,
			model.ActionWait},
		"taken over, abandoned": {helmtest.Record("pending-upgrade", 1, inShard("b"), old), "a",
			model.ActionRecoverThenUpgrade, model.ActionUninstall},
		"own uninstall": {helmtest.Record("uninstalling", 1, uninstalling, inShard("b")), "b",
			model.ActionRecoverThenUpgrade, model.ActionUninstall},
		"uninstall of another": {helmtest.Record("uninstalling", 1, uninstalling, inShard("a")), "b",
			model.ActionWait, model.ActionWait},
		"uninstall of another, abandoned": {helmtest.Record("uninstalling", 1, uninstalling, inShard("a"), old), "b",
			model.ActionRecoverThenUpgrade, model.ActionUninstall},
		"remediation of another, abandoned": {helmtest.Record("uninstalling", 1, uninstalling, neverWorked, inShard("a"),
			old), "b", model.ActionUninstall, model.ActionUninstall},
		"uninstall of another object": {helmtest.Record("uninstalling", 1, uninstalling, inShard("a"), otherUID), "b",
			model.ActionWait, model.ActionWait},
		"uninstalled by hand": {helmtest.Record("uninstalling", 1, inShard("b")), "b", model.ActionWait,
			model.ActionWait},
		"uninstalled by hand, abandoned": {helmtest.Record("uninstalling", 1, inShard("b"), old), "b",
			model.ActionRecoverThenUpgrade, model.ActionUninstall},
		"deployed by another shard before": {helmtest.Record("deployed", 1, inShard("a")), "b", model.ActionNone,
			model.ActionUninstall},
	} {
		desired := helmtest.Desired()
		desired.Shard = tc.shard
		observed := model.Observation{Records: []model.Record{tc.record}}
		decision := Next(observed, desired, model.Policy{}, model.Past{}, helmtest.Now)
		if decision.Action != tc.want {
			t.Errorf("%s: %+v, want %s", name, decision, tc.want)
		}
		if decision.Action == model.ActionWait && (decision.RequeueAfter <= 0 || decision.RequeueAfter > 10*time.Second) {
			t.Errorf("%s: RequeueAfter %s", name, decision.RequeueAfter)
		}
		if decision := Uninstall(observed, desired, model.Policy{}, helmtest.Now); decision.Action != tc.wantOnDelete {
			t.Errorf("%s: on deletion %+v, want %s", name, decision, tc.wantOnDelete)
		}
	}
}
