// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"context"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// prepare prepares an installation or upgrade: it checks the chart and the record storage, and applies the CRDs. It
// returns the post-renderer for Helm. It does not change chart and values.
func (s *session) prepare(desired model.Desired, options model.Options, chrt *chart.Chart, values map[string]any,
	upgrade bool,
) (postrender.PostRenderer, error) {
	renderer, err := s.renderer.PostRenderer(s.context(), options.PostRender, desired.Namespace, tenantOf(desired))
	if err != nil {
		return nil, err
	}
	if err := s.checkChartSize(chrt); err != nil {
		return nil, err
	}
	if err := s.prepareStorage(); err != nil {
		return nil, err
	}
	s.prepareNamespace(desired, options.Install, !upgrade)
	policy := options.Install.CRDs
	if upgrade {
		policy = options.Upgrade.CRDs
	}
	fits := func(crds []*crds.Object) error {
		return s.checkSize(desired, chrt, values, renderer, crds, upgrade)
	}
	if err := s.applyCRDsOf(sourceOf(desired, chrt, values), policy, fits); err != nil {
		return nil, err
	}
	if s.cluster != nil {
		s.cluster.Progress("rendering")
	}
	return renderer, nil
}

// applyCRDsOf applies the objects in the crds folders of a chart and of its enabled dependencies. It sends no request
// if there are no such objects. It calls preflight before the first write.
func (s *session) applyCRDsOf(source rendering.Source, policy model.CRDPolicy,
	preflight func([]*crds.Object) error,
) error {
	if policy == model.CRDsSkip || s.cluster == nil {
		return nil
	}
	files, err := s.renderer.CRDs(s.context(), source)
	if err != nil {
		return err
	}
	objects, err := crds.Read(files)
	if err != nil || len(objects) == 0 {
		return err
	}
	target := crds.Target{Cluster: s.cluster, Namespace: s.namespace, Known: s.config.Capabilities.APIVersions,
		Rediscover: s.rediscover}
	return crds.Apply(target, policy, objects, func() error { return preflight(objects) })
}

// prepareStorage returns an error if the store that would hold the new record does not respond. It is called before the
// action changes anything.
func (s *session) prepareStorage() error {
	if !s.stored.Outside {
		return nil
	}
	if s.stored.Store == nil {
		return helmerr.New(helmerr.ErrRecordStorage,
			"no registry is configured for release records: set spec.storage.registry, or the manager's --record-storage-url")
	}
	if err := s.stored.Store.Prepare(s.context()); err != nil {
		return helmerr.New(helmerr.ErrRecordStorage, "nothing was changed, because the record cannot be stored: %s", err)
	}
	return nil
}

// applyAgain declares that the manifest of a recorded revision will be applied: the cluster must serve its kinds.
func (s *session) applyAgain(revision int) {
	if s.cluster != nil {
		s.cluster.Seen.ApplyAgain(revision)
	}
}

// onlyDeletes declares that only hooks will be applied: objects of kinds that the cluster no longer serves are skipped.
func (s *session) onlyDeletes() {
	if s.cluster != nil {
		s.cluster.Lenient = true
	}
}

// reportTo makes the action report its progress to a function.
func (s *session) reportTo(progress func(string)) {
	if s.cluster != nil && progress != nil {
		s.cluster.Progress = progress
	}
}

// context returns the context that bounds the action.
func (s *session) context() context.Context {
	if s.cluster == nil {
		return context.Background()
	}
	return s.cluster.Ctx
}
