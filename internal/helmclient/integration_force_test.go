/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// TestIntegrationForce holds that force makes objects anew whose fields cannot be changed, only those, and none that hold
// data.
func TestIntegrationForce(t *testing.T) {
	b := newBench(t)
	templates := func(app, size string) map[string]string {
		return map[string]string{"value.yaml": valueConfigMap,
			"moving.yaml":  strings.ReplaceAll(cutDeployment("1"), "app: a}", "app: "+app+"}"),
			"staying.yaml": strings.ReplaceAll(cutDeployment(app), "name: deployment", "name: staying"),
			"data.yaml": "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec:\n  accessModes: [ReadWriteOnce]\n" +
				"  storageClassName: " + size + "\n  resources: {requests: {storage: 1Gi}}\n"}
	}
	made := func(version, app, size string) *chart.Chart { return newChart(version, templates(app, size)) }
	run := b.newRun(made("1.0.0", "a", "one"), map[string]any{"cidr": "1"})
	run.mustSettle(t)
	moving, staying := b.deploymentUID("deployment"), b.deploymentUID("staying")

	run.options.Upgrade.Force = true
	run.desired.OptionsDigest = OptionsDigest(run.options)
	run.want("a2", made("2.0.0", "b", "one"))
	run.mustSettle(t)
	if b.deploymentUID("deployment") == moving || b.deploymentUID("staying") != staying {
		t.Errorf("deployment was %s, is %s; staying was %s, is %s", moving, b.deploymentUID("deployment"), staying, b.deploymentUID("staying"))
	}
	b.wantRecords(run.desired, "2 deployed", "1 superseded")

	claim := "/api/v1/namespaces/" + b.namespace + "/persistentvolumeclaims/data"
	before := b.get(claim).GetUID()
	run.want("a3", made("3.0.0", "b", "two"))
	_, err := run.actNow(t, ActionUpgrade)
	wantError(t, err, nil, true, `PersistentVolumeClaim "data" is not deleted, although force is set`)
	if b.get(claim).GetUID() != before {
		t.Error("the claim was made anew")
	}
}
