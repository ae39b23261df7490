// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/postrender"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// prepare prepares an installation or upgrade. It checks the chart and the storage of the record, and applies the CRDs.
// It returns the post-renderer for Helm. It does not change chart and values.
func (s *verb) prepare(values map[string]any, upgrade bool) (postrender.PostRenderer, error) {
	renderer, err := s.PostRenderer(s.Job)
	if err != nil {
		return nil, err
	}
	if err := s.checkChartSize(); err != nil {
		return nil, err
	}
	if err := s.prepareStorage(); err != nil {
		return nil, err
	}
	s.PrepareNamespace(s.Desired, s.Options.Install, !upgrade)
	policy := s.Options.Install.CRDs
	if upgrade {
		policy = s.Options.Upgrade.CRDs
	}
	if s.Cluster != nil {
		s.Cluster.KeepsCRD = crds.InFolder(s.Chart)
	}
	source := s.Source(values)
	fits := func(crds []*crds.Object) error { return s.checkSize(source, renderer, crds, upgrade) }
	if err := s.applyCRDsOf(source, policy, fits); err != nil {
		return nil, err
	}
	if s.Cluster != nil {
		s.Cluster.Progress("rendering")
	}
	return renderer, nil
}

// applyCRDsOf applies the objects in the crds folders of a chart and of its enabled dependencies. It calls preflight
// before the first write. Without such objects, it sends no request.
func (s *verb) applyCRDsOf(source rendering.Source, policy model.CRDPolicy,
	preflight func([]*crds.Object) error,
) error {
	if policy == model.CRDsSkip || s.Cluster == nil {
		return nil
	}
	files, err := s.Renderer.CRDs(s.Ctx, source)
	if err != nil {
		return err
	}
	objects, err := s.CRDs.Read(s.Memory, files)
	if err != nil || len(objects) == 0 {
		return err
	}
	if err := s.readAssumed(); err != nil {
		return err
	}
	target := crds.Target{Cluster: s.Cluster, Namespace: s.Namespace, Known: s.Config.Capabilities.APIVersions,
		Rediscover: s.rediscover}
	return crds.Apply(target, policy, objects, func() error { return preflight(objects) })
}

// prepareStorage returns an error if the store for the new record does not respond. It is called before the action
// changes anything.
func (s *verb) prepareStorage() error {
	if !s.Stored.Outside {
		return nil
	}
	if s.Stored.Store == nil {
		return helmerr.New(helmerr.ErrRecordStorage,
			"no registry is configured for release records: set spec.storage.registry, or the manager's --record-storage-url")
	}
	if err := s.Stored.Store.Prepare(s.Ctx); err != nil {
		return helmerr.New(helmerr.ErrRecordStorage, "nothing was changed, because the record cannot be stored: %s", err)
	}
	return nil
}

// rediscover runs discovery again. It returns the version and the kinds that the cluster serves.
func (s *verb) rediscover() (*chartutil.Capabilities, error) {
	conn := s.Cluster.Clients.Conn
	conn.Kinds.Invalidate()
	capabilities, err := conn.Capabilities(false, s.Logs.Printf)
	if err != nil {
		return nil, err
	}
	s.Config.Capabilities = capabilities
	return capabilities, nil
}
