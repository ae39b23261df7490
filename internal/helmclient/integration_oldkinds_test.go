// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// ageKinds moves the clock of the caches of the connection, see freezeCaches.
func (b *bench) ageKinds(by time.Duration) {
	kinds := knownKindsOf(b.t, b.client, b.target)
	later := kinds.Now().Add(by)
	kinds.Now = func() time.Time { return later }
}

// TestIntegrationUninstallWithOldKinds uninstalls a release two minutes after the last discovery. In the meantime, the
// cluster has stopped to serve the version of a Widget in the manifest. Only an uninstallation that deletes nothing but
// the objects of the newest revision may begin without discovery.
func TestIntegrationUninstallWithOldKinds(t *testing.T) {
	for name, test := range map[string]struct {
		// metadata is added to the metadata of the Widget.
		metadata string
		// isHook means that the Widget is a hook, and that an earlier uninstallation has left it.
		isHook bool
		// isLeft makes an upgrade fail before it deletes the Widget.
		isLeft bool
		// isHeld means that the Widget has a finalizer, and that the uninstallation waits for its deletion.
		isHeld bool
		// begins means that the first request for the Widget comes before the discovery.
		begins bool
	}{
		"object": {begins: true},
		"hook":   {metadata: "  annotations: {helm.sh/hook: pre-delete}\n", isHook: true},
		"left":   {isLeft: true},
		"wait":   {metadata: "  finalizers: [example.com/held]\n", isHeld: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			group := b.group(name)
			widgets := "/apis/" + group + "/v2/namespaces/" + b.namespace + "/widgets"
			run := b.newRun(helmtest.ChartWithCRDs("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
				"one.yaml": strings.Replace(widgetOf(group, "v1", "one"), "name: one\n", "name: one\n"+test.metadata, 1)},
				map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1", "v2")}), map[string]any{"cidr": "1"})
			run.mustSettle(t)
			if test.isLeft {
				run.want("a2", helmtest.NewChart("2.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap,
					"hook.yaml": hookService("refused", "pre-upgrade")}))
				run.mustFail(t, run.later(t, 0), model.ActionUpgrade)
			}
			client := b.kube.Discovery().RESTClient()
			if test.isHook {
				if err := client.Post().AbsPath(widgets).Body([]byte(`{"apiVersion":"` + group + `/v2","kind":"Widget",` +
					`"metadata":{"name":"one","labels":{"from":"earlier"}}}`)).Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
			}
			b.stopServingV1(group)
			b.freezeCaches()
			b.ageKinds(2 * time.Minute)
			b.cutter.Take()

			run.options.Uninstall.Wait = test.isHeld
			if test.isHeld {
				var err error
				for _, timeout := range shortTimeouts {
					run.options.Uninstall.Timeout = timeout
					if err = run.settleUninstall(t.Context()); err == nil || strings.Contains(err.Error(), `Widget "one"`) {
						break
					}
				}
				helmtest.WantError(t, err, helmerr.ErrTimeout, true, `Widget "one"`)
				b.wantRecords(run.desired, "1 uninstalling")
				if err := client.Patch(types.MergePatchType).AbsPath(widgets + "/one").
					Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(t.Context()).Error(); err != nil {
					t.Fatal(err)
				}
				run.options.Uninstall.Timeout = 0
			}
			if err := run.settleUninstall(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The hook has no policy by which it is deleted after its success.
			if left := b.get(widgets + "/one"); left != nil && (!test.isHook || left.GetLabels()["from"] != "") {
				t.Errorf("the Widget is still there: %v", left)
			}
			b.wantRecords(run.desired)
			requests := b.cutter.Take()
			discovery := slices.Index(requests, "GET /version")
			first := slices.IndexFunc(requests, func(request string) bool { return strings.Contains(request, "/widgets") })
			if discovery < 0 || first < 0 || first < discovery != test.begins {
				t.Errorf("unexpected order of the discovery and the first request for the Widget: %q", requests)
			}
		})
	}
}
