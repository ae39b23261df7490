// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// The media types of a chart in a registry.
const (
	chartConfigType = "application/vnd.cncf.helm.config.v1+json"
	chartLayerType  = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// engine is the contestant Engine.
type engine struct {
	client  *helmclient.Client
	loader  *bundle.Loader
	configs []*rest.Config
}

func newEngine(configs []*rest.Config) *engine {
	renderers := sandbox.NewPool(sandbox.Options{})
	loader := bundle.NewLoader(bundle.Limits{}, renderers)
	return &engine{client: helmclient.New(renderers), loader: loader, configs: configs}
}

func (e *engine) target(r release) model.Target {
	return model.Target{Key: fmt.Sprintf("bench/%d", r.cluster), Config: e.configs[r.cluster]}
}

func (e *engine) desired(r release) model.Desired {
	// Values are maps of strings and can always be marshalled.
	data, _ := json.Marshal(r.values)
	return model.Desired{
		Name: r.name, Namespace: r.namespace, Owner: "bench." + r.name, UID: "bench-" + r.name,
		ArtifactDigest: r.chart.digest,
		ValuesDigest:   fmt.Sprintf("%x", sha256.Sum256(data)), OptionsDigest: model.OptionsDigest(model.Options{}),
	}
}

// pass makes one reconciliation of the controller for a release.
func (e *engine) pass(r release) (model.Action, error) {
	ctx, target, desired := context.Background(), e.target(r), e.desired(r)
	observation, err := e.client.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return "", err
	}
	decision := decide.Next(observation, desired, model.Policy{}, model.Past{}, time.Now())
	if decision.Action == model.ActionNone {
		return decision.Action, nil
	}
	chrt, err := e.loader.Chart(ctx, bundle.Source{
		Digest: r.chart.digest, Manifest: bundle.Manifest{ConfigMediaType: chartConfigType,
			Layers: []bundle.Layer{{MediaType: chartLayerType}}},
		ReadLayer: func(context.Context, int) ([]byte, error) { return r.chart.Archive, nil },
	})
	if err != nil {
		return "", err
	}
	_, err = e.client.Act(ctx, target, decision, desired, model.Options{}, chrt, r.values)
	return decision.Action, err
}

// expect makes one reconciliation and checks its action.
func (e *engine) expect(r release, want model.Action) error {
	got, err := e.pass(r)
	if err == nil && got != want {
		err = fmt.Errorf("%s: the engine decided %s, not %s", r.name, got, want)
	}
	return err
}

func (e *engine) install(r release) error { return e.expect(r, model.ActionInstall) }

func (e *engine) upgrade(r release) error { return e.expect(r, model.ActionUpgrade) }

func (e *engine) check(r release) error { return e.expect(r, model.ActionNone) }

func (e *engine) uninstall(r release) error {
	ctx, target, desired := context.Background(), e.target(r), e.desired(r)
	observation, err := e.client.Observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return err
	}
	decision := decide.Uninstall(observation, desired, model.Policy{}, time.Now())
	_, err = e.client.Act(ctx, target, decision, desired, model.Options{}, nil, nil)
	return err
}
