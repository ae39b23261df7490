// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"context"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/storage/driver"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/actionmemory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// partsTimeout is how long [Result.Parts] waits for memory.
const partsTimeout = time.Minute

// Engine runs dry runs. It is safe for concurrent use.
type Engine struct {
	open     session.Opener
	memory   *actionmemory.Budget
	observe  func(ctx context.Context, target model.Target, namespace, name string) (model.Observation, error)
	renderer *rendering.Renderer
}

// New returns an Engine. The Engine opens sessions with open within the memory of all actions, and observes releases
// with observe. The Engine uses the renderer for renderings without a cluster.
func New(open session.Opener, all *actionmemory.Budget,
	observe func(ctx context.Context, target model.Target, namespace, name string) (model.Observation, error),
	renderer *rendering.Renderer,
) *Engine {
	return &Engine{open: open, memory: all, observe: observe, renderer: renderer}
}

// Render renders a release for a cluster as Act would. It uses the version and the API groups of the cluster, and the
// lookups of the chart. If the cluster has the release, Render renders an upgrade. Render writes nothing. The error is
// an [*helmerr.Error].
func (e *Engine) Render(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any,
) (Result, error) {
	return e.renderFor(ctx, target, desired, options, chrt, values, nil)
}

// renderFor renders a release. change may change the capabilities that templates see. Nil changes nothing.
func (e *Engine) renderFor(ctx context.Context, target model.Target, desired model.Desired, options model.Options,
	chrt *chart.Chart, values map[string]any, change func(*chartutil.Capabilities) error,
) (Result, error) {
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	observation, err := e.observe(ctx, target, desired.Namespace, desired.Name)
	if err != nil {
		return Result{}, err
	}
	next := nextRelease(desired, observation)
	verb := model.ActionInstall
	if next.IsUpgrade {
		verb = model.ActionUpgrade
	}
	job := session.Job{Desired: desired, Options: options, Chart: chrt, Values: values}
	var rendered Result
	waits := actionmemory.Waits{Context: ctx}
	err = session.Use(ctx, e.memory, waits, e.open, target, desired, logs, func(s *session.Session) error {
		if change != nil {
			if err := change(s.Config.Capabilities); err != nil {
				return err
			}
		}
		// The parsed objects must not outlive the session, because it has the memory for them.
		parsed, err := reader{s}.render(job, next)
		rendered = parsed.Result
		return err
	})
	if err != nil {
		return Result{}, helmerr.Acting(verb, err, nil, logs)
	}
	rendered.within = e.within(ctx, session.OwnerOf(target, desired))
	return rendered, nil
}

// within returns a function that calls another one with memory for a release. The context of the rendering may have
// ended by then, so the wait has its own limit.
func (e *Engine) within(ctx context.Context, owner actionmemory.Owner) func(func(*actionmemory.Lease) error) error {
	return func(use func(*actionmemory.Lease) error) error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partsTimeout)
		defer cancel()
		return e.memory.Do(actionmemory.Waits{Context: ctx}, owner, use)
	}
}

// Offline describes a cluster that gets no requests.
type Offline struct {
	// KubeVersion is the version of Kubernetes. Empty means the version of the Helm SDK.
	KubeVersion string
	// APIVersions are the APIs that the cluster serves in addition to the kinds of Kubernetes, as GROUP/VERSION or
	// GROUP/VERSION/KIND.
	APIVersions []string
}

// RenderOffline renders a release as an installation, without requests to its cluster. Lookups of the chart return
// nothing. The error is an [*helmerr.Error].
func (e *Engine) RenderOffline(ctx context.Context, desired model.Desired, options model.Options, chrt *chart.Chart,
	values map[string]any, cluster Offline,
) (Result, error) {
	logs := &helmerr.LogBuffer{Redactor: helmerr.NewRedactor(values, options.SecretValues)}
	s := session.New(ctx, driver.NewMemory(), nil, e.renderer, desired, logs)
	s.Config.Capabilities = chartutil.DefaultCapabilities.Copy()
	s.Config.Capabilities.APIVersions = slices.Concat(s.Config.Capabilities.APIVersions, cluster.APIVersions)
	if cluster.KubeVersion != "" {
		version, err := chartutil.ParseKubeVersion(cluster.KubeVersion)
		if err != nil {
			return Result{}, s.Error(model.ActionInstall, fmt.Errorf("the version of Kubernetes: %w", err))
		}
		s.Config.Capabilities.KubeVersion = *version
	}
	rendered, err := reader{s}.render(session.Job{Desired: desired, Options: options, Chart: chrt, Values: values},
		nextRelease(desired, model.Observation{}))
	if err != nil {
		return Result{}, s.Error(model.ActionInstall, err)
	}
	return rendered.Result, nil
}
