// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TestLeftoversReserveMemory checks that memory for the manifests of failed revisions is reserved when they are found,
// and that an uninstallation is never refused because they need too much.
func TestLeftoversReserveMemory(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	history := driver.NewMemory()
	history.SetNamespace("apps")
	for revision := 1; revision <= 3; revision++ {
		rls := helmtest.Release(revision, release.StatusFailed)
		rls.Manifest = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a%d\ndata:\n  a: ", revision) +
			strings.Repeat("x", size)
		if err := history.Create(records.NameOf(rls.Name, revision), rls); err != nil {
			t.Fatal(err)
		}
	}
	desired := model.Desired{Namespace: "apps", Name: "demo"}
	for name, tc := range map[string]struct {
		budget, used int64
		action       model.Action
		isRefused    bool
	}{
		"enough":                          {256 << 20, 0, model.ActionUpgrade, false},
		"used by others":                  {256 << 20, 240 << 20, model.ActionUpgrade, true},
		"too large":                       {8 << 20, 0, model.ActionUpgrade, true},
		"uninstallation, enough":          {256 << 20, 0, model.ActionUninstall, false},
		"uninstallation, used by others":  {256 << 20, 240 << 20, model.ActionUninstall, true},
		"uninstallation, too large alone": {8 << 20, 0, model.ActionUninstall, false},
	} {
		s := New(t.Context(), history, nil, nil, desired, &helmerr.LogBuffer{})
		s.Cluster = apply.NewClient(t.Context(), nil, "apps", func(string, ...any) {})
		budget := actionmemory.NewBudget(tc.budget)
		if err := budget.Lease(actionmemory.Owner{}).Records(tc.used); err != nil {
			t.Fatal(err)
		}
		s.SetMemory(budget.Lease(actionmemory.Owner{}))
		if tc.action == model.ActionUninstall {
			s.Memory.Force()
		}
		err := s.FindLeftovers(decide.Decision{Action: tc.action}, desired)
		if isRefused := err != nil; isRefused != tc.isRefused {
			t.Errorf("%s: %v", name, err)
		}
		if held := s.Memory.Held(); err == nil && held < min(3*size, tc.budget) {
			t.Errorf("%s: %d bytes are held", name, held)
		}
	}
}
