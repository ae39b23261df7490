// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationAssumedNamespace installs into a namespace that exists and that the manager does not know. The
// installation must search for objects of other owners, even if the user may not create namespaces.
func TestIntegrationAssumedNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		// isForeign means that an object of the chart exists already.
		isForeign bool
		// mayNotCreate means that the cluster refuses to create namespaces.
		mayNotCreate bool
		splitAll     bool
	}{
		"exists":                             {},
		"exists with records in parts":       {splitAll: true},
		"has an object of others":            {isForeign: true},
		"has one with records in parts":      {isForeign: true, splitAll: true},
		"may not be created":                 {mayNotCreate: true},
		"may not be created and has objects": {mayNotCreate: true, isForeign: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.createNamespace()
			if test.isForeign {
				b.createForeign()
			}
			if test.mayNotCreate {
				b.forbid(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest })
			}
			b.target.Storage.SplitAll = test.splitAll
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			_, err := run.actNow(t, model.ActionInstall)
			if !test.isForeign {
				if err != nil {
					t.Fatal(err)
				}
				b.wantConfigMap("first", "1")
				b.wantRecords(run.desired, "1 deployed")
				second := b.newRun(helmtest.NewChart("1.0.0", sharedObjects(1, "1")), map[string]any{"cidr": "1"})
				second.desired.Name = "second"
				second.mustSettle(t)
				b.wantOneAssumption()
				return
			}
			if !errors.Is(err, helmerr.ErrConflict) {
				t.Errorf("the error is %v", err)
			}
			b.wantConfigMap("first", "foreign")
			b.wantNoConfigMap("demo-value")
			b.wantRecords(run.desired)
			if _, err := run.actNow(t, model.ActionInstall); !errors.Is(err, helmerr.ErrConflict) {
				t.Errorf("the second error is %v", err)
			}
			for _, request := range b.wantOneAssumption() {
				if strings.HasPrefix(request, "POST") && strings.HasSuffix(request, "/secrets") {
					t.Error("a part of a record was written before the search for objects of others")
				}
			}
		})
	}
}

// createForeign creates the ConfigMap "first" without annotations of a release.
func (b *bench) createForeign() {
	b.t.Helper()
	b.createFirst(false)
}

// createFirst creates the ConfigMap first, as a client that is not Helm does.
func (b *bench) createFirst(isImmutable bool) {
	b.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "first"}, Data: map[string]string{"key": "foreign"},
		Immutable: &isImmutable}
	if _, err := b.kube.CoreV1().ConfigMaps(b.namespace).Create(b.t.Context(), object,
		metav1.CreateOptions{}); err != nil {
		b.t.Error(err)
	}
}

// createNamespaceRequest is a request that creates a namespace.
const createNamespaceRequest = "POST /api/v1/namespaces"

// wantOneAssumption checks that HelmOp tried only once to create the namespace, and returns all requests so far.
func (b *bench) wantOneAssumption() []string {
	b.t.Helper()
	requests := append(b.cutter.Take(), b.refused...)
	isOther := func(request string) bool { return request != createNamespaceRequest }
	if tries := len(slices.DeleteFunc(slices.Clone(requests), isOther)); tries != 1 {
		b.t.Errorf("the namespace was created %d times", tries)
	}
	return requests
}

// TestIntegrationDefaultNamespaceExists checks that an installation does not try to create a namespace that each
// cluster has.
func TestIntegrationDefaultNamespaceExists(t *testing.T) {
	b := newBench(t)
	run := b.newRun(helmtest.NewChart("1.0.0", map[string]string{"first.yaml": helmtest.ConfigMap("first", "1")}),
		map[string]any{"cidr": "1"})
	run.desired.Name, run.desired.Namespace = b.namespace, metav1.NamespaceDefault
	run.mustSettle(t)
	if slices.Contains(b.cutter.Take(), createNamespaceRequest) {
		t.Error("the namespace was assumed to be missing")
	}
	if err := run.settleUninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestIntegrationObjectInNewNamespaceStays checks that HelmOp keeps an object of another client. The other client
// creates the object right after HelmOp created the namespace. The record of the failed installation contains an object
// of the same name. The uninstallation is cut after each number of requests, and repeated.
func TestIntegrationObjectInNewNamespaceStays(t *testing.T) {
	for name, remediates := range map[string]bool{"uninstallation": false, "remediation": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.afterwards(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest },
				b.createForeign)
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			if remediates {
				run.policy = model.Policy{Install: model.FailurePolicy{Remediate: model.RemediateUninstall}}
			}
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			b.wantRecords(run.desired, "1 failed")
			if remediates {
				run.mustAct(t, run.later(t, 0), model.ActionUninstall)
			}
			for after := 0; !remediates; after++ {
				b.cutter.Take()
				b.cutter.After = after
				err := run.settleUninstall(t.Context())
				b.cutter.After = -1
				b.wantConfigMap("first", "foreign")
				if err == nil {
					break
				}
			}
			b.wantConfigMap("first", "foreign")
			b.wantNoConfigMap("demo-value")
			b.wantRecords(run.desired)
		})
	}
}

// TestIntegrationForceKeepsForeignObjects checks an upgrade with force after a failed first installation. The upgrade
// does not wait for the deletion of an object that stays. Without upgrade.takeOwnership, the error says why the object
// stays. With it, the object is re-created.
func TestIntegrationForceKeepsForeignObjects(t *testing.T) {
	for name, takesOwnership := range map[string]bool{"kept": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.afterwards(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest },
				func() { b.createFirst(true) })
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			b.wantRecords(run.desired, "1 failed")

			run.options.Install.TakeOwnership = true
			run.options.Upgrade.Force, run.options.Upgrade.TakeOwnership = true, takesOwnership
			run.desired.OptionsDigest = model.OptionsDigest(run.options)
			_, err := run.actNow(t, model.ActionUpgrade)
			if !takesOwnership {
				helmtest.WantError(t, err, nil, true, "force does not delete it: no revision of the release worked")
				b.wantConfigMap("first", "foreign")
				return
			}
			if got, exists := b.configMapValue("first"); err != nil || !exists || got == "foreign" {
				t.Errorf("%v: the object holds %q", err, got)
			}
		})
	}
}

// TestIntegrationRetryKeepsForeignObjects checks the attempt after a failed first installation. The installation failed
// because another client had created an object. Without takeOwnership, the attempt fails too, and the object stays.
// When the object is gone, the release is installed. A preview of the attempt reports the object.
func TestIntegrationRetryKeepsForeignObjects(t *testing.T) {
	for name, takesOwnership := range map[string]bool{"kept": false, "taken over": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.afterwards(func(req *http.Request) bool { return req.Method+" "+req.URL.Path == createNamespaceRequest },
				b.createForeign)
			run := b.newRun(helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), map[string]any{"cidr": "1"})
			run.mustFail(t, run.later(t, 0), model.ActionInstall)
			b.wantRecords(run.desired, "1 failed")

			run.options.Install.TakeOwnership = takesOwnership
			run.desired.OptionsDigest = model.OptionsDigest(run.options)
			b.options = run.options
			previewed := map[bool]string{false: "Update ConfigMap first OwnedByOther", true: "Update ConfigMap first"}
			preview := &planBench{bench: b, desired: run.desired}
			preview.want(preview.plan(run.chart, run.values), 1, previewed[takesOwnership])
			_, err := run.act(t.Context(), run.later(t, time.Hour))
			if takesOwnership {
				if got, exists := b.configMapValue("first"); err != nil || !exists || got == "foreign" {
					t.Errorf("%v: the object holds %q", err, got)
				}
				return
			}
			helmtest.WantError(t, err, helmerr.ErrConflict, true, "set install.takeOwnership")
			b.wantConfigMap("first", "foreign")

			if err := b.kube.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			run.mustAct(t, run.later(t, time.Hour), model.ActionUpgrade)
		})
	}
}
