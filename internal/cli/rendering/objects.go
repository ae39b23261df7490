// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	helmrendering "github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// unlimited is a limit that no rendering reaches: the context ends a rendering.
const unlimited = 1000 * time.Hour

// memory is the memory of a rendering on the machine of a user, in bytes. Managers have less by default, but a chart
// may be for a manager with more.
const memory = 2 << 30

// remedies say what users of Objects can do about a limit.
var remedies = map[sandbox.Limit]string{
	sandbox.LimitMemory: "render it with another program",
	sandbox.LimitCPU:    "raise the limit of CPU time of the shell (ulimit -t)",
	sandbox.LimitTime:   "raise --timeout",
	sandbox.LimitOutput: "split it",
	sandbox.LimitCrash:  "look at the memory of this machine",
}

// newPool returns a pool whose children run until the context of a request ends.
func newPool() *sandbox.Pool {
	return sandbox.NewPool(sandbox.Options{Remedies: remedies,
		Limits: sandbox.Limits{Memory: memory, CPU: unlimited, Time: unlimited}})
}

// Objects returns the objects that an artifact installs as a release in a namespace: CRDs first and hooks last, and the
// items of lists instead of the lists. It connects to no cluster. A child process of this program renders the artifact,
// so a chart or a kustomization that does not end is stopped when the context ends.
func Objects(ctx context.Context, source bundle.Source, release, namespace string, values map[string]any) (
	objects []*unstructured.Unstructured, err error,
) {
	renderers := newPool()
	defer renderers.Close()
	source.IsSole = true
	loaded, err := bundle.NewLoader(bundle.Limits{}, renderers).Chart(ctx, source)
	if err != nil {
		return nil, withCause(ctx, err)
	}
	// There is no cluster that the chart could refuse for its version.
	chart := helmrendering.CopyChart(loaded)
	chart.Metadata.KubeVersion = ""
	rendered, err := helmclient.New(renderers).RenderOffline(ctx, model.Desired{Name: release, Namespace: namespace},
		model.Options{}, chart, values, dryrun.Offline{})
	if err != nil {
		return nil, withCause(ctx, err)
	}
	for _, text := range slices.Concat(rendered.CRDs, []string{rendered.Manifest}, rendered.Hooks) {
		found, err := bundle.ParseObjects(text)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// withCause adds the cause of the end of the context to the error of a rendering that the end stopped.
func withCause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	isStopped := errors.Is(err, bundle.ErrLimit) || errors.Is(err, helmrendering.ErrLimit)
	if cause == nil || !isStopped {
		return err
	}
	// Only the text of the cause is part of the error: a deadline would count as a registry that does not respond.
	return fmt.Errorf("%s: %w", cause.Error(), err)
}
