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
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestOtherShards holds that what the manager of another shard began, which served the release before, is left to it for as long as
// what a stranger began, and looked at often.
func TestOtherShards(t *testing.T) {
	t.Parallel()
	inShard := func(shard string) func(*Record) { return func(r *Record) { r.Shard = shard } }
	for name, tc := range map[string]struct {
		record             Record
		shard              string
		want, wantOnDelete Action
	}{
		"own, no shard":                    {testRecord("pending-upgrade", 1), "", ActionRecoverThenUpgrade, ActionUninstall},
		"own, in a shard":                  {testRecord("pending-upgrade", 1, inShard("b")), "b", ActionRecoverThenUpgrade, ActionUninstall},
		"taken into a shard":               {testRecord("pending-upgrade", 1), "b", ActionWait, ActionWait},
		"taken out of a shard":             {testRecord("pending-upgrade", 1, inShard("b")), "", ActionWait, ActionWait},
		"taken over, abandoned":            {testRecord("pending-upgrade", 1, inShard("b"), old), "a", ActionRecoverThenUpgrade, ActionUninstall},
		"own uninstall":                    {testRecord("uninstalling", 1, uninstalling, inShard("b")), "b", ActionUninstall, ActionUninstall},
		"uninstall of another":             {testRecord("uninstalling", 1, uninstalling, inShard("a")), "b", ActionWait, ActionWait},
		"uninstall of another, abandoned":  {testRecord("uninstalling", 1, uninstalling, inShard("a"), old), "b", ActionUninstall, ActionUninstall},
		"uninstall of another object":      {testRecord("uninstalling", 1, uninstalling, inShard("a"), otherUID), "b", ActionUninstall, ActionUninstall},
		"uninstalled by hand":              {testRecord("uninstalling", 1, inShard("b")), "b", ActionWait, ActionWait},
		"uninstalled by hand, abandoned":   {testRecord("uninstalling", 1, inShard("b"), old), "b", ActionUninstall, ActionUninstall},
		"deployed by another shard before": {testRecord("deployed", 1, inShard("a")), "b", ActionNone, ActionUninstall},
	} {
		desired := testDesired()
		desired.Shard = tc.shard
		observed := Observation{Records: []Record{tc.record}}
		decision := Decide(observed, desired, Policy{}, Past{}, testNow)
		if decision.Action != tc.want {
			t.Errorf("%s: %+v, want %s", name, decision, tc.want)
		}
		if decision.Action == ActionWait && (decision.RequeueAfter <= 0 || decision.RequeueAfter > 10*time.Second) {
			t.Errorf("%s: looks again after %s", name, decision.RequeueAfter)
		}
		if decision := DecideUninstall(observed, desired, Policy{}, testNow); decision.Action != tc.wantOnDelete {
			t.Errorf("%s: on deletion %+v, want %s", name, decision, tc.wantOnDelete)
		}
	}
}

// TestWriterSigns holds that a record tells the shard of who wrote it last, also where another shard made it.
func TestWriterSigns(t *testing.T) {
	t.Parallel()
	const key = "sh.helm.release.v1.demo.v1"
	clients := fake.NewClientset()
	desired := desiredFor("apps", "demo", "a1", "v1")
	desired.Shard = "a"
	made := newRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")), attemptLabels(desired, Decision{}))
	made.shard = desired.Shard
	if err := made.Create(key, testRelease(1, release.StatusDeployed)); err != nil {
		t.Fatal(err)
	}
	for _, shard := range []string{"a", "b", ""} {
		writer := newRecordingDriver(driver.NewSecrets(clients.CoreV1().Secrets("apps")), nil)
		writer.shard = shard
		if shard != "a" {
			record, err := writer.Get(key)
			if err != nil {
				t.Fatal(err)
			}
			record.Info.Status = release.StatusUninstalling
			if err := writer.Update(key, record); err != nil {
				t.Fatal(err)
			}
		}
		secret, err := clients.CoreV1().Secrets("apps").Get(t.Context(), key, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		record, ok := recordFromMetadata(&secret.ObjectMeta)
		if !ok || record.Shard != shard || !record.authentic() {
			t.Errorf("written by shard %q: %+v", shard, record)
		}
	}
}
