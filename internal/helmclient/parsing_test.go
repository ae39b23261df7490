// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bytebudget"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// TestParsesShareMemory checks that a large manifest is parsed only within the share of its Cluster, that the memory is
// given back after the parse, and that small manifests and other Clusters do not wait.
func TestParsesShareMemory(t *testing.T) {
	t.Parallel()
	k := newDiscoveryServer(t).kubeClient(t)
	budget := bytebudget.New(64 << 20)
	conn := k.Clients.Conn
	conn.Parsing = budget
	small := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
	large := small + "data:\n" + strings.Repeat("- {a: 0}\n", 50_000)
	decode := func(manifest string) error {
		_, err := k.Decode(manifest)
		return err
	}
	build := func(manifest string) error {
		_, err := k.Build(strings.NewReader(manifest), false)
		return err
	}
	other, err := budget.Acquire(t.Context(), bytebudget.Owner{Tenant: "other", Host: "other/one"}, budget.Share())
	if err != nil {
		t.Fatal(err)
	}
	for name, parse := range map[string]func(string) error{"decode": decode, "build": build} {
		if err := parse(large); err != nil {
			t.Errorf("%s while another tenant parses: %v", name, err)
		}
	}
	if budget.InUse() != other.Held() {
		t.Errorf("%d bytes are held after the parses", budget.InUse()-other.Held())
	}
	if err := k.HoldParsing(yamlweight.Weight{Values: 1 << 20}); err != nil || budget.InUse() != 2*budget.Share() {
		t.Errorf("%d bytes are held while Helm parses: %v", budget.InUse()-other.Held(), err)
	}
	if err := build(large); err != nil || budget.InUse() != other.Held() {
		t.Errorf("the memory of the rendering is not given back: %v", err)
	}
	own, err := budget.Acquire(t.Context(), conn.Owner, budget.Share())
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	k.Ctx = ended
	for name, parse := range map[string]func(string) error{"decode": decode, "build": build} {
		if err := parse(large); !errors.Is(err, helmerr.ErrTimeout) {
			t.Errorf("%s while the Cluster holds its share: %v", name, err)
		}
		if err := parse(small); err != nil {
			t.Errorf("%s of a small manifest: %v", name, err)
		}
	}
	own.Release()
	other.Release()
	if budget.InUse() != 0 {
		t.Errorf("%d bytes are held in the end", budget.InUse())
	}
}
