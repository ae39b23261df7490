// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// largeChart is a chart size in bytes. A larger chart may be too large for a record, if it does not compress well.
const largeChart = 8 << 20

// checkChartSize returns an error if the chart alone is too large for a record.
func (s *verb) checkChartSize() error {
	if s.Records == nil || records.ChartBytes(s.Chart) < largeChart {
		return nil
	}
	piece, err := s.Records.Piece(s.Chart)
	if errors.Is(err, helmerr.ErrTooLarge) || errors.Is(err, helmerr.ErrBusy) {
		return err
	}
	if err != nil {
		return helmerr.New(helmerr.ErrInvalidChart, "the chart cannot be recorded: %s", err)
	}
	return records.CheckSize(len(piece.Packed), s.Stored)
}

// checkSize renders a chart before its CRDs are applied. It returns an error if the release is too large for Helm's
// storage. The templates see the kinds of the CRDs as if the cluster served them. checkSize ignores other errors of the
// rendering, because the chart may look up objects in the cluster. A chart without CRDs needs no checkSize: its record
// is created before any other write, and its size is checked then.
func (s *verb) checkSize(source rendering.Source, renderer postrender.PostRenderer, objects []*crds.Object,
	upgrade bool,
) error {
	install := s.DryRun(s.Desired, upgrade)
	install.PostRenderer = renderer
	var served []schema.GroupVersionKind
	for _, object := range objects {
		served = append(served, object.Serves...)
	}
	install.APIVersions = crds.WithKinds(s.Config.Capabilities.APIVersions, served)
	rls, err := s.renderForSize(install, source)
	if errors.Is(err, helmerr.ErrRenderLimit) || errors.Is(err, helmerr.ErrBusy) ||
		errors.Is(err, helmerr.ErrTooLarge) || rendering.IsNotBegun(err) {
		return err
	}
	if err != nil {
		s.Logs.Printf("cannot determine the size of the release in advance: %s", err)
		return nil
	}
	packed, err := s.Records.Pack(rls)
	if errors.Is(err, helmerr.ErrTooLarge) || errors.Is(err, helmerr.ErrBusy) {
		return err
	}
	if err != nil {
		return helmerr.New(helmerr.ErrInvalidChart, "the release cannot be recorded: %s", err)
	}
	return records.CheckSize(len(packed), s.Stored)
}

// renderForSize renders a release and does not record it. Lookups of the chart return nothing.
func (s *verb) renderForSize(install *action.Install, source rendering.Source) (*release.Release, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *install.KubeVersion
	capabilities.APIVersions = slices.Concat(capabilities.APIVersions, install.APIVersions)
	rendered, err := s.RenderHeld(source, rendering.Options{
		Release: chartutil.ReleaseOptions{
			Name: install.ReleaseName, Namespace: install.Namespace, Revision: 1, IsInstall: !install.IsUpgrade,
			IsUpgrade: install.IsUpgrade,
		},
		Capabilities: capabilities,
	})
	if err != nil {
		return nil, err
	}
	// This rendering is only for the size. The action renders again.
	defer func() { _ = s.Memory.Render(yamlweight.Weight{}) }()
	rls, err := install.Run(rendered.Literal, rendering.CopyValues(source.Values))
	if err != nil {
		return nil, err
	}
	rls.Chart = rendered.Recorded
	return rls, nil
}
