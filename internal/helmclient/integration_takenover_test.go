// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationObjectsTakenOverStay checks that objects stay which a failed revision only took over, and that objects
// go which it created.
func TestIntegrationObjectsTakenOverStay(t *testing.T) {
	own := map[string]string{"value.yaml": helmtest.ValueConfigMap}
	broken := with(with(with(own, "theirs.yaml", helmtest.ConfigMap("theirs", "new")), "left.yaml",
		helmtest.ConfigMap("left", "1")), "broken.yaml", brokenService)
	for name, test := range map[string]struct {
		isFirst bool
		policy  model.Policy
		// change leads away from the failed revision.
		change func(*releaseRun)
		want   model.Action
	}{
		"revert": {want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a1", helmtest.NewChart("1.0.0", own)) }},
		"rollback": {policy: helmtest.WithRollback, want: model.ActionRollback, change: func(*releaseRun) {}},
		"failed installation": {isFirst: true, want: model.ActionUpgrade,
			change: func(run *releaseRun) { run.want("a3", helmtest.NewChart("3.0.0", own)) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createNamespace()
			theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Data: map[string]string{"key": "theirs"}}
			if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(t.Context(), theirs,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			run := b.newRun(helmtest.NewChart("1.0.0", own), map[string]any{"cidr": "1"})
			run.policy, run.options.Install.TakeOwnership, run.options.Upgrade.TakeOwnership = test.policy, true, true
			action := model.ActionInstall
			if !test.isFirst {
				run.mustSettle(t)
				action = model.ActionUpgrade
			}
			run.failing(t, "a2", helmtest.NewChart("2.0.0", broken), action)
			b.wantConfigMap("theirs", "new")
			b.wantConfigMap("left", "1")
			test.change(run)
			run.mustAct(t, run.later(t, 0), test.want)
			if _, ok := b.configMapValue("theirs"); !ok {
				t.Error("the object that the failed revision took over is gone")
			}
			b.wantNoConfigMap("left")
		})
	}
}
