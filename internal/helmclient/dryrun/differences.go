// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package dryrun

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/adoption"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifests"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/namespacing"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/session"
)

// AdoptionDifferences returns the newest record of a release and the changes that an upgrade to the desired state would
// make. It compares the objects and hooks of the record, the ownership marks of the objects in the cluster, the folder
// crds, and the release's namespace. It does not compare the content of the objects in the cluster: such differences
// are drift.
func AdoptionDifferences(s *session.Session, j session.Job) (*release.Release, []adoption.Difference, error) {
	return reader{s}.adoptionDifferences(j)
}

func (s reader) adoptionDifferences(j session.Job) (*release.Release, []adoption.Difference, error) {
	recorded, err := s.Config.Releases.Last(j.Desired.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the release to adopt: %w", err)
	}
	// The manifest and the hooks of the revision may contain these values.
	s.HideFormer(recorded, j.Values)
	j = renderedFor(j, recorded)
	rendered, err := s.render(j, releaseOptionsOf(recorded))
	if err != nil {
		return nil, nil, err
	}
	namespaces := s.Namespaces(j.Desired.Namespace)
	// Only the differences stay, and no objects.
	defer s.Memory.Temporary()()
	decode := func(manifest string) ([]*unstructured.Unstructured, error) {
		return manifests.Decode(s.Memory, manifest)
	}
	differences, err := adoption.Compare(
		adoption.Content{Chart: metadataOf(recorded), Manifest: recorded.Manifest, Hooks: recorded.Hooks},
		adoption.Content{Chart: j.Chart.Metadata, Manifest: rendered.Manifest, Hooks: rendered.hooks}, decode, namespaces.Of)
	if err == nil {
		err = namespaces.Err
	}
	if err != nil {
		return nil, nil, err
	}
	around, err := s.differencesAround(j, recorded.Manifest, rendered)
	return recorded, append(differences, around...), err
}

// renderedFor returns the job with the chart version of the record, if Flux changed the version of the chart. Templates
// print the version, so it would be a difference.
func renderedFor(j session.Job, recorded *release.Release) session.Job {
	metadata := metadataOf(recorded)
	if metadata == nil || j.Chart == nil || j.Chart.Metadata == nil ||
		!adoption.IsFluxVersion(metadata.Version, j.Chart.Metadata.Version, j.Desired.ArtifactDigest) {
		return j
	}
	j.Chart = rendering.CopyChart(j.Chart)
	j.Chart.Metadata.Version = metadata.Version
	return j
}

// releaseOptionsOf returns the release as the templates saw it when the revision was rendered. Revision 1 is an
// installation. Later revisions are upgrades.
func releaseOptionsOf(recorded *release.Release) chartutil.ReleaseOptions {
	return chartutil.ReleaseOptions{
		Name: recorded.Name, Namespace: recorded.Namespace, Revision: recorded.Version,
		IsInstall: recorded.Version == 1, IsUpgrade: recorded.Version > 1,
	}
}

func metadataOf(recorded *release.Release) *chart.Metadata {
	if recorded.Chart == nil {
		return nil
	}
	return recorded.Chart.Metadata
}

// differencesAround returns the changes that an upgrade would make, except changes of the objects in the manifest.
func (s reader) differencesAround(j session.Job, manifest string,
	rendered parsedResult,
) ([]adoption.Difference, error) {
	if s.Cluster == nil {
		return nil, nil
	}
	unowned, err := s.Cluster.Unowned(manifest)
	if err != nil {
		return nil, err
	}
	var differences []adoption.Difference
	for _, object := range unowned {
		how := "lacks Helm's label or annotations"
		if object.Owner != "" {
			how = "belongs to release " + object.Owner
		}
		differences = append(differences, adoption.Difference{What: object.Ref.String(), How: how})
	}
	planner := &planner{Client: s.dryRunCluster(j.Desired),
		NewNamespaces: map[string]bool{}, NewKinds: map[schema.GroupKind]bool{}}
	namespace := &namespacing.Namespacer{Ctx: s.Ctx, Clients: planner.Clients, Name: j.Desired.Namespace,
		Labels: j.Options.Install.NamespaceLabels, Annotations: j.Options.Install.NamespaceAnnotations}
	if err := planner.Namespace(namespace); err != nil {
		return nil, err
	}
	if err := crds.Plan(planner, j.Options.Upgrade.CRDs, rendered.crds); err != nil {
		return nil, err
	}
	for _, change := range planner.Changes {
		how := adoption.Changed
		if change.Kind == model.ChangeCreate {
			how = adoption.Added
		}
		differences = append(differences, adoption.Difference{What: change.Ref.String(), How: how})
	}
	return differences, nil
}
