// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// TestIntegrationResultHasObjectGenerations checks that the result of an action has its objects and their generations,
// because a watch may return older states.
func TestIntegrationResultHasObjectGenerations(t *testing.T) {
	b := newBench(t)
	made := func(version, app string) *chart.Chart {
		return helmtest.NewChart(version, map[string]string{
			"value.yaml":   helmtest.ValueConfigMap,
			"anew.yaml":    strings.ReplaceAll(cutDeployment(app), "app: a}", "app: "+app+"}"),
			"changed.yaml": strings.ReplaceAll(cutDeployment(app), "name: deployment", "name: changed"),
			"same.yaml":    strings.ReplaceAll(cutDeployment("1"), "name: deployment", "name: same"),
		})
	}
	run := b.newRun(made("1.0.0", "a"), map[string]any{"cidr": "1"})
	paths := map[inventory.Ref]string{
		{Version: "v1", Kind: "ConfigMap", Namespace: b.namespace, Name: "demo-value"}: "/api/v1/namespaces/" + b.namespace +
			"/configmaps/demo-value",
	}
	for _, name := range []string{"deployment", "changed", "same"} {
		ref := inventory.Ref{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: b.namespace, Name: name}
		paths[ref] = "/apis/apps/v1/namespaces/" + b.namespace + "/deployments/" + name
	}
	act := func(action model.Action) {
		t.Helper()
		result, err := run.actNow(t, action)
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Generations) != len(paths) {
			t.Errorf("%s: generations of %d objects, want %d", action, len(result.Generations), len(paths))
		}
		for ref, path := range paths {
			object := b.get(path)
			number, isVersion := inventory.NumberOf(object)
			if got, want := result.Generations[ref],
				(model.Generation{UID: object.GetUID(), Number: number, IsVersion: isVersion}); got != want {
				t.Errorf("%s: %s is reported as %+v, is %+v", action, ref, got, want)
			}
		}
	}
	act(model.ActionInstall)
	run.options.Upgrade.Force = true
	run.desired.OptionsDigest = model.OptionsDigest(run.options)
	run.want("a2", made("2.0.0", "b"))
	act(model.ActionUpgrade)
}
