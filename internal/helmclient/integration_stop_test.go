// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
)

// TestIntegrationStopEndsWait checks that a waiting action ends soon after Stop. Its revision is failed and can be
// uninstalled at once.
func TestIntegrationStopEndsWait(t *testing.T) {
	for name, template := range map[string]string{
		"hook before": hook("Job", "hang", "pre-install", jobSpec),
		"hook after":  hook("Job", "hang", "post-install", jobSpec),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
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
			result, err := b.act(b.decide(desired, model.Policy{}), desired,
				helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap, "job.yaml": template}),
				map[string]any{"cidr": "1"})
			helmtest.WantError(t, err, nil, true, "the release is being deleted")
			if result.Status != "failed" {
				t.Errorf("result %+v", result)
			}
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("it took %s", took)
			}
			b.wantRecords(desired, "1 failed")

			// A stopped action does not start to wait. Stop has no effect on an uninstallation.
			decision := decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now())
			if _, err := b.act(decision, desired, nil, nil); err != nil {
				t.Error(err)
			}
			b.wantRecords(desired)
		})
	}
}

// TestIntegrationWaitEndsWithoutRecord checks an uninstallation that waits for a hook while another process deletes the
// record. It ends soon, and the release needs no further action.
func TestIntegrationWaitEndsWithoutRecord(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	b.converge(desired, helmtest.NewChart("1.0.0", map[string]string{
		"value.yaml": helmtest.ValueConfigMap, "job.yaml": hook("Job", "hang", "pre-delete", jobSpec),
	}), map[string]any{"cidr": "1"})
	b.options.Uninstall.Timeout = 4 * time.Minute
	b.options.Progress = func(what string) {
		if strings.HasPrefix(what, "waiting for hook") {
			if err := b.kube.CoreV1().Secrets(b.namespace).Delete(t.Context(), records.NameOf("demo", 1),
				metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	begun := time.Now()
	_, err := b.act(decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now()), desired, nil, nil)
	helmtest.WantError(t, err, helmerr.ErrStale, true, "another process uninstalled the release")
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	if got := decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now()); got.Action != model.ActionNone {
		t.Errorf("afterwards: %+v", got)
	}
}

// TestIntegrationUninstallByHand checks that HelmOp waits for an uninstallation with the helm command, so that its hook
// runs once. Then the release is installed again.
func TestIntegrationUninstallByHand(t *testing.T) {
	b := newBench(t)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	chrt := helmtest.NewChart("1.0.0",
		map[string]string{"value.yaml": helmtest.ValueConfigMap, "job.yaml": hook("Job", "wait", "pre-delete", jobSpec)})
	b.converge(desired, chrt, map[string]any{"cidr": "1"})
	ended := make(chan error, 1)
	uninstall := action.NewUninstall(b.human())
	uninstall.Timeout = time.Minute
	go func() {
		_, err := uninstall.Run("demo")
		ended <- err
	}()
	jobs := b.kube.BatchV1().Jobs(b.namespace)
	b.eventually("the hook runs", func(ctx context.Context) (bool, error) {
		_, err := jobs.Get(ctx, "wait", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	for name, decision := range map[string]decide.Decision{
		"wanted":     decide.Next(b.observe(desired), desired, model.Policy{}, model.Past{}, time.Now().Add(10*time.Minute)),
		"not wanted": decide.Uninstall(b.observe(desired), desired, model.Policy{}, time.Now().Add(10*time.Minute)),
	} {
		if decision.Action != model.ActionWait || decision.State != model.StateUninstalling ||
			!strings.Contains(decision.Message, "helm command") {
			t.Errorf("%s: decided %+v", name, decision)
		}
	}
	if err := endJob(t.Context(), b.kube, b.namespace, "wait", false); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("helm uninstall: %v", err)
	}
	if actions := b.converge(desired, chrt, map[string]any{"cidr": "1"}); len(actions) != 1 ||
		actions[0] != model.ActionInstall {
		t.Errorf("afterwards: %v", actions)
	}
}
