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
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// TestIntegrationStop holds that an action which waits ends soon when it is told to, in good order: its revision is a failed one, and
// can be uninstalled at once.
func TestIntegrationStop(t *testing.T) {
	for name, template := range map[string]string{
		"hook before": hook("Job", "hang", "pre-install", jobSpec),
		"hook after":  hook("Job", "hang", "post-install", jobSpec),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			desired := desiredFor(b.namespace, "demo", "a1", "v1")
			b.options.Install.Timeout = 4 * time.Minute
			stop, end := context.WithCancelCause(t.Context())
			defer end(nil)
			b.options.Stop = stop
			b.options.Progress = func(what string) {
				if strings.HasPrefix(what, "waiting for hook") {
					end(errors.New("the release is being deleted"))
				}
			}
			begun := time.Now()
			result, err := b.act(b.decide(desired, Policy{}), desired,
				newChart("1.0.0", map[string]string{"value.yaml": valueConfigMap, "job.yaml": template}), map[string]any{"cidr": "1"})
			wantError(t, err, nil, true, "the release is being deleted")
			if result.Status != "failed" {
				t.Errorf("result %+v", result)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			b.wantRecords(desired, "1 failed")

			// What is told to stop begins nothing that waits, and an uninstallation is not stopped.
			decision := DecideUninstall(b.observe(desired), desired, Policy{}, time.Now())
			if _, err := b.act(decision, desired, nil, nil); err != nil {
				t.Error(err)
			}
			b.wantRecords(desired)
		})
	}
}
