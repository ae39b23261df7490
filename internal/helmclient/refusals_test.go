// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationRejectionNamesObject checks that the error for a rejected object names the object once, for each way
// in which the object is sent.
func TestIntegrationRejectionNamesObject(t *testing.T) {
	bad := map[string]string{"value.yaml": helmtest.ValueConfigMap,
		"bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bad\ndata:\n  key: {no: text}\n"}
	good := map[string]string{"value.yaml": helmtest.ValueConfigMap, "bad.yaml": helmtest.ConfigMap("bad", "1")}
	for name, test := range map[string]struct {
		before map[string]string
		force  bool
		says   string
	}{
		"install": {nil, false, "ConfigMap NAMESPACE/bad: ConfigMap in version"},
		"upgrade creates": {map[string]string{"value.yaml": helmtest.ValueConfigMap}, false,
			"ConfigMap NAMESPACE/bad: ConfigMap in version"},
		"upgrade patches": {good, false, `cannot patch "bad" with kind ConfigMap: `},
		"force":           {good, true, "ConfigMap NAMESPACE/bad: ConfigMap in version"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			run, action := b.newRun(helmtest.NewChart("1.0.0", bad), map[string]any{"cidr": "1"}), model.ActionInstall
			if test.before != nil {
				run.chart, action = helmtest.NewChart("1.0.0", test.before), model.ActionUpgrade
				run.mustSettle(t)
			}
			run.options.Upgrade.Force = test.force
			run.desired.OptionsDigest = model.OptionsDigest(run.options)
			run.want("a2", helmtest.NewChart("2.0.0", bad))
			_, err := run.actNow(t, action)
			helmtest.WantError(t, err, nil, true, strings.ReplaceAll(test.says, "NAMESPACE", b.namespace))
		})
	}
}
