// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestUncheckedRevisions(t *testing.T) {
	t.Parallel()
	upgrade, uninstall := decide.Decision{Action: model.ActionUpgrade}, decide.Decision{Action: model.ActionUninstall}
	rollback := func(to int) decide.Decision { return decide.Decision{Action: model.ActionRollback, RollbackTo: to} }
	tests := map[string]struct {
		// history is Helm's history, newest first. The oldest revision is 1.
		history  string
		decision decide.Decision
		want     string
	}{
		"nothing":                        {"", upgrade, ""},
		"upgrade":                        {"deployed/superseded", upgrade, ""},
		"upgrade after failures":         {"failed/failed/deployed/failed", upgrade, "4 3"},
		"upgrade after a failed install": {"failed/failed", upgrade, "2 1"},
		"upgrade after an uninstall":     {"failed/uninstalled/failed", upgrade, "3"},
		"recovered upgrade":              {"failed/deployed", decide.Decision{Action: model.ActionRecoverThenUpgrade}, "2"},
		"upgrade after a failed rollback of what was healthy": {"failed/superseded/superseded", upgrade, "3 2"},
		"rollback of a failed upgrade":                        {"failed/deployed", rollback(1), "2"},
		"rollback again":                                      {"failed/failed/deployed", rollback(1), "3 2"},
		"rollback again of what was healthy":                  {"failed/deployed/superseded", rollback(1), "3 2"},
		"rollback of what is deployed":                        {"deployed/superseded", rollback(1), ""},
		"rollback to itself":                                  {"failed/deployed", rollback(2), "1"},
		"uninstall":                                           {"deployed/failed/superseded", uninstall, ""},
		"uninstall after a failed upgrade":                    {"failed/failed/deployed/superseded", uninstall, "4 3 2"},
		"uninstall, cut off":                                  {"uninstalling/superseded/superseded", uninstall, "3 2"},
		"bounded": {strings.Repeat("failed/", 30) + "deployed", upgrade,
			"31 30 29 28 27 26 25 24 23 22"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var history []*release.Release
			words := strings.FieldsFunc(test.history, func(r rune) bool { return r == '/' })
			for i, status := range words {
				history = append(history, helmtest.Release(len(words)-i, release.Status(status)))
			}
			var got []string
			for _, record := range Unchecked(history, test.decision) {
				got = append(got, fmt.Sprint(record.Version))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("suspects %v, want %s", got, test.want)
			}
		})
	}
}

// TestNeverWorked checks after which histories HelmOp deletes only objects with the annotations of the release.
func TestNeverWorked(t *testing.T) {
	t.Parallel()
	record := func(version int, status release.Status, labels map[string]string) *release.Release {
		return &release.Release{Version: version, Info: &release.Info{Status: status}, Labels: labels}
	}
	own := func(version int, status release.Status) *release.Release {
		return record(version, status, map[string]string{model.LabelRevision: strconv.Itoa(version)})
	}
	for name, test := range map[string]struct {
		history []*release.Release
		want    bool
	}{
		"failed":              {[]*release.Release{own(1, release.StatusFailed)}, true},
		"interrupted":         {[]*release.Release{own(1, release.StatusPendingInstall)}, true},
		"failed again":        {[]*release.Release{own(1, release.StatusFailed), own(2, release.StatusFailed)}, true},
		"deployed":            {[]*release.Release{own(1, release.StatusDeployed)}, false},
		"worked before":       {[]*release.Release{own(1, release.StatusSuperseded), own(2, release.StatusFailed)}, false},
		"uninstalled before":  {[]*release.Release{own(1, release.StatusUninstalled), own(2, release.StatusFailed)}, false},
		"of the helm command": {[]*release.Release{record(1, release.StatusFailed, nil)}, false},
		"after a revision of the helm command": {[]*release.Release{record(1, release.StatusFailed, nil),
			own(2, release.StatusFailed)}, false},
		"with copied labels": {[]*release.Release{own(1, release.StatusFailed), record(2, release.StatusFailed,
			map[string]string{model.LabelRevision: "1"})}, false},
		"failed, with objects of an earlier installation": {[]*release.Release{record(1, release.StatusFailed,
			map[string]string{model.LabelRevision: "1", model.LabelMayHaveWorked: "true"})}, true},
		"interrupted after the records were lost": {[]*release.Release{record(1, release.StatusFailed, map[string]string{
			model.LabelRevision: "1", model.LabelMayHaveWorked: "true", model.LabelInterrupted: "true"})}, true},
		"uninstallation given up": {[]*release.Release{{Version: 1, Info: &release.Info{Status: release.StatusFailed,
			Deleted: helmtime.Now()}, Labels: map[string]string{model.LabelRevision: "1", model.LabelMayHaveWorked: "true",
			model.LabelInterrupted: "true"}}}, false},
		"being uninstalled": {[]*release.Release{own(1, release.StatusUninstalling)}, false},
		"being uninstalled, never worked": {[]*release.Release{record(1, release.StatusUninstalling,
			map[string]string{model.LabelRevision: "1", model.LabelNeverWorked: "true"})}, true},
	} {
		if got := NeverWorked(test.history); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
