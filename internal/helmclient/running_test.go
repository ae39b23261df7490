// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"
	"errors"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// TestOneActionPerRelease checks that a release has one action at a time, also with another owner, with a renewed
// kubeconfig or with an impersonated user. Actions on other releases run.
func TestOneActionPerRelease(t *testing.T) {
	t.Parallel()
	first := model.Target{Key: "fleet/one", Config: &rest.Config{Host: "https://one", BearerToken: "a"}}
	renewed := model.Target{Key: first.Key, Config: &rest.Config{Host: "https://one", BearerToken: "b"}}
	impersonated := model.Target{Key: first.Key, Config: first.Config, Impersonate: "system:serviceaccount:apps:a"}
	other := helmtest.DesiredFor("apps", "demo", "a2", "v2")
	other.Owner, other.UID = "default.other", "other"
	tests := map[string]struct {
		target  model.Target
		desired model.Desired
		refused bool
	}{
		"the same":           {first, helmtest.DesiredFor("apps", "demo", "a1", "v1"), true},
		"another owner":      {first, other, true},
		"renewed kubeconfig": {renewed, other, true},
		"impersonated user":  {impersonated, other, true},
		"another name":       {first, helmtest.DesiredFor("apps", "demo-2", "a1", "v1"), false},
		"another namespace":  {first, helmtest.DesiredFor("other", "demo", "a1", "v1"), false},
		"another cluster":    {model.Target{Key: "fleet/two"}, helmtest.DesiredFor("apps", "demo", "a1", "v1"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newFakeCluster()
			act := func(target model.Target, desired model.Desired) error {
				_, err := c.Act(t.Context(), target, decide.Decision{Action: model.ActionUninstall}, desired, model.Options{}, nil,
					nil)
				return err
			}
			isFirst, during := true, error(nil)
			open := c.open
			c.open = func(ctx context.Context, target model.Target, desired model.Desired, logs *helmerr.LogBuffer,
			) (*session.Session, error) {
				if isFirst {
					isFirst = false
					during = act(test.target, test.desired)
				}
				return open(ctx, target, desired, logs)
			}
			after := act(first, helmtest.DesiredFor("apps", "demo", "a1", "v1"))
			if errors.Is(during, helmerr.ErrStale) != test.refused {
				t.Errorf("an action during another one: %v", during)
			}
			if errors.Is(after, helmerr.ErrStale) {
				t.Errorf("the first action: %v", after)
			}
			if err := act(test.target, test.desired); errors.Is(err, helmerr.ErrStale) {
				t.Errorf("an action after the other one: %v", err)
			}
		})
	}
}
