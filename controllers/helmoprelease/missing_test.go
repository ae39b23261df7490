// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmoprelease

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/controllertest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/health"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/objectwatch"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/report"
)

// newMissingBench returns a healthy release with a ConfigMap whose existence was not checked yet.
func newMissingBench(t *testing.T) *healthBench {
	b := newHealthBench(t)
	b.objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Health: health.Unknown}
	b.deploy(nil)
	b.is(controllertest.Deployment, health.Current)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	return b
}

func (b *healthBench) request(value string) {
	b.release.Annotations = map[string]string{addonsv1.RetryRequestedAtAnnotation: value}
}

// TestMissingObjectWithoutHealth checks that a release without one of its ConfigMaps is not healthy and names the
// ConfigMap, and that a retry request causes one upgrade.
func TestMissingObjectWithoutHealth(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	message := conditions.GetMessage(b.release, addonsv1.HealthyCondition)
	if !strings.Contains(message, controllertest.ConfigMap.String()) ||
		!strings.Contains(message, "to create the missing objects") {
		t.Errorf("the message is %q", message)
	}
	b.request("now")
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionUpgrade)
	// The upgrade met the request, and the object exists.
	b.release.Status.LastRetryRequest = "now"
	b.is(controllertest.ConfigMap, health.Current)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
}

// listingWatcher counts the calls of List.
type listingWatcher struct {
	healthWatcher
	listed int
}

func (w *listingWatcher) List(types.NamespacedName) { w.listed++ }

// TestRetryWaitsForList checks that a retry request does not count as met before the objects were listed.
func TestRetryWaitsForList(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	watcher := &listingWatcher{healthWatcher: healthWatcher{bench: b}}
	b.r.watcher = watcher
	b.release.Status.LastRetryRequest = ""
	b.request("now")
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	if watcher.listed != 1 || b.release.Status.LastRetryRequest != "" {
		t.Fatalf("listed %d times, the request %q counts as met", watcher.listed, b.release.Status.LastRetryRequest)
	}
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionUpgrade)
	// If no object is missing, the request is met.
	b.is(controllertest.ConfigMap, health.Current)
	b.request("later")
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
	if watcher.listed != 2 || b.release.Status.LastRetryRequest != "later" {
		t.Errorf("listed %d times, the request %q counts as met", watcher.listed, b.release.Status.LastRetryRequest)
	}
}

// TestRestartedManagerKeepsMissingObjects checks that a manager that has not listed the objects yet does not report a
// release as healthy whose status has missing objects.
func TestRestartedManagerKeepsMissingObjects(t *testing.T) {
	t.Parallel()
	b := newMissingBench(t)
	b.is(controllertest.ConfigMap, health.NotFound)
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	b.objects[controllertest.ConfigMap] = objectwatch.State{Exists: true, Health: health.Unknown}
	b.watched.Synced = false
	b.spared = map[inventory.Ref]bool{controllertest.Deployment: true}
	b.want(b.pass(time.Second, report.False, addonsv1.ObjectsMissingReason), model.ActionNone)
	b.watched.Synced = true
	b.want(b.pass(time.Second, report.True, addonsv1.HealthyReason), model.ActionNone)
}
