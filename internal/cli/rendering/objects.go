// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/dryrun"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	helmrendering "github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// Objects returns the objects that an artifact installs as a release in a namespace: CRDs first and hooks last, and the
// items of lists instead of the lists. It connects to no cluster. A child process of this program renders the artifact,
// so a chart that does not end is stopped when the context ends.
func Objects(ctx context.Context, source bundle.Source, release, namespace string, values map[string]any) (
	objects []*unstructured.Unstructured, err error,
) {
	renderers := sandbox.NewPool(sandbox.Options{})
	defer renderers.Close()
	loaded, err := bundle.NewLoader(bundle.Limits{}, renderers).Chart(ctx, source)
	if err != nil {
		return nil, err
	}
	// There is no cluster that the chart could refuse for its version.
	chart := helmrendering.CopyChart(loaded)
	chart.Metadata.KubeVersion = ""
	rendered, err := helmclient.New(renderers).RenderOffline(ctx, model.Desired{Name: release, Namespace: namespace},
		model.Options{}, chart, values, dryrun.Offline{})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		// Only the text of the cause is part of the error: a deadline would count as a registry that does not respond.
		return nil, fmt.Errorf("%s: %w", cause.Error(), err)
	}
	if err != nil {
		return nil, err
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
