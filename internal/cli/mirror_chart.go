// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/pack"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/chartrepo"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/mirror"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// copyChart copies a chart from a chart repository. The archive does not change. The copy gets a manifest in the form
// of "helm push".
func (m *mirroring) copyChart(ctx context.Context, source mirrorSource, locked mirror.Entry) (mirror.Entry, error) {
	entry := mirror.Entry{Source: source.text}
	chart, wanted, err := splitChart(source.text)
	if err != nil {
		return entry, err
	}
	site, err := url.Parse(chart)
	if err != nil {
		return entry, kube.Usagef("%q is not a URL", source.text)
	}
	target, err := mirror.Target(m.prefix, site.Host, site.Path)
	if err != nil {
		return entry, err
	}
	packed, found, err := m.pullChart(ctx, chart, wanted, source, locked)
	if err != nil {
		return entry, err
	}
	to, err := m.Repository(registryaccess.Location{Reference: target})
	if err != nil {
		return entry, err
	}
	from, err := registryaccess.Stage(ctx, packed)
	if err != nil {
		return entry, err
	}
	entry.Version, entry.ArchiveDigest = found.Version, found.Digest
	entry.Target, entry.Tag = registryaccess.Location{Reference: target}.URL(), strings.ReplaceAll(found.Version, "+", "_")
	entry.Digest = packed.Manifest.Digest.String()
	_, err = m.send(ctx, source, from, entry.Digest, to, entry.Tag)
	return entry, err
}

// splitChart splits https://host/path/chart:version into the chart and the version.
func splitChart(source string) (chart, wanted string, err error) {
	end := strings.LastIndex(source, ":")
	if end < strings.LastIndex(source, "/") || end == len(source)-1 {
		return "", "", kube.Usagef("%q has no version; add :VERSION", source)
	}
	return source[:end], source[end+1:], nil
}

// pullChart pulls a version of a chart and packs it as an artifact. If a bill or the lock file has the chart, the
// archive must have the same digest.
func (m *mirroring) pullChart(ctx context.Context, chart, wanted string, source mirrorSource,
	locked mirror.Entry,
) (*pack.Artifact, oci.Artifact, error) {
	access := oci.Access{Insecure: m.PlainHTTP}
	charts, err := m.chartClient()
	if err != nil {
		return nil, oci.Artifact{}, err
	}
	found, err := charts.Resolve(ctx, oci.Source{URL: chart, Ref: oci.Reference{Tag: wanted}, Access: access})
	if err != nil {
		return nil, found, err
	}
	if locked.ArchiveDigest != "" && locked.ArchiveDigest != found.Digest {
		wayOut := "use --update to copy the new archive"
		if source.listed.ArchiveDigest != "" {
			wayOut = "permit the new archive in the HelmOp, and make the bill again"
		}
		return nil, found, fmt.Errorf("the chart repository replaced this version: the archive was %s and is %s; find out "+
			"why, and %s", locked.ArchiveDigest, found.Digest, wayOut)
	}
	content, err := charts.Fetch(ctx, chart, found.Digest, access)
	if err != nil {
		return nil, found, err
	}
	archive, err := content.ReadLayer(ctx, content.Layers[0])
	if err != nil {
		return nil, found, err
	}
	file := filepath.Join(m.folder, "chart.tgz")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		return nil, found, err
	}
	packed, err := pack.Pack(file, pack.Options{Format: bundle.FormatHelmChart})
	return packed, found, err
}

// chartClient returns the client for chart repositories.
func (m *mirroring) chartClient() (*chartrepo.Client, error) {
	if m.charts != nil {
		return m.charts, nil
	}
	registries, err := oci.New(oci.Options{Dir: filepath.Join(m.folder, "artifacts"), CAFile: m.CAFile,
		UserAgent: "kubectl-helmop/" + version.Version, CredentialsFile: cmp.Or(m.Config, registryaccess.DockerConfig())})
	if err != nil {
		return nil, err
	}
	m.charts = chartrepo.New(registries)
	return m.charts, nil
}
