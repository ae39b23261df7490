// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/adoption"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/apply"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/records"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// adopt takes over a release of another owner. If the desired state would change nothing, it only labels the newest
// record. Otherwise it upgrades the release, or fails if the decision is to adopt only without a change.
func (s *session) adopt(j job) error {
	if err := s.checkNewest(j.decision, j.desired); err != nil {
		return err
	}
	recorded, differences, err := s.adoptionDifferences(j)
	switch {
	case err != nil:
		return err
	case len(differences) == 0:
		return s.label(j, recorded)
	case j.decision.UnchangedOnly:
		return helmerr.New(helmerr.ErrWouldChange, "the adoption of Helm revision %d would change %s; nothing was changed. "+
			"Change the values or the chart until nothing differs, or set install.adoption to Upgrade; kubectl helmop preview "+
			"shows the changes", recorded.Version, adoption.Summarize(differences))
	default:
		return s.upgrade(j)
	}
}

// label labels the record of an adopted revision, and changes nothing else. A process that uninstalls the release at
// the same time marks the record first: the labels require the record as it was read, and so does the mark, see
// [records.Store.Relabel]. So at most one of the two succeeds.
func (s *session) label(j job, recorded *release.Release) error {
	if err := s.storage.Relabel(records.NameOf(recorded.Name, recorded.Version), recorded); err != nil {
		return err
	}
	s.storage.Refresh()
	last, err := s.config.Releases.Last(j.desired.Name)
	if err != nil {
		return fmt.Errorf("reading the history again: %w", err)
	}
	if last.Version != recorded.Version {
		// The next pass decides about the new revision, so this does not count as an attempt.
		s.storage.Restart()
		return helmerr.New(helmerr.ErrStale, "Helm revision %d was created in the meantime", last.Version)
	}
	return nil
}

// adoptionDifferences returns the newest record of a release, and what the desired state would change in the release:
// in the objects and the hooks that the record has, in the marks of the objects in the cluster, in the folder crds and
// in the release's namespace. It does not compare the content of the objects in the cluster: such differences are
// drift. It writes nothing.
func (s *session) adoptionDifferences(j job) (*release.Release, []adoption.Difference, error) {
	recorded, err := s.config.Releases.Last(j.desired.Name)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the release to adopt: %w", err)
	}
	// The manifest and the hooks of the revision may contain these values.
	s.logs.Hide(recorded.Config)
	j = j.renderedFor(recorded)
	rendered, err := s.dryRun(s.context(), j, releaseOptionsOf(recorded))
	if err != nil {
		return nil, nil, err
	}
	namespaces := s.namespaces(j.desired.Namespace)
	differences, err := adoption.Compare(
		adoption.Content{Chart: metadataOf(recorded), Manifest: recorded.Manifest, Hooks: recorded.Hooks},
		adoption.Content{Chart: j.chart.Metadata, Manifest: rendered.Manifest, Hooks: rendered.hooks}, namespaces.of)
	if err == nil {
		err = namespaces.err
	}
	if err != nil {
		return nil, nil, err
	}
	around, err := s.differencesAround(j, recorded.Manifest, rendered)
	return recorded, append(differences, around...), err
}

// renderedFor returns the job that renders the chart as the record has it: Flux changes the version of a chart, and
// templates print the version.
func (j job) renderedFor(recorded *release.Release) job {
	metadata := metadataOf(recorded)
	if metadata == nil || j.chart == nil || j.chart.Metadata == nil ||
		!adoption.IsFluxVersion(metadata.Version, j.chart.Metadata.Version, j.desired.ArtifactDigest) {
		return j
	}
	j.chart = rendering.CopyChart(j.chart)
	j.chart.Metadata.Version = metadata.Version
	return j
}

// releaseOptionsOf returns what the templates saw of a release when its revision was rendered: revision 1 is an
// installation, and later revisions are upgrades.
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

// differencesAround returns what an upgrade would change beside the objects that the manifest has.
func (s *session) differencesAround(j job, manifest string, rendered DryRun) ([]adoption.Difference, error) {
	if s.cluster == nil {
		return nil, nil
	}
	unowned, err := s.cluster.Unowned(manifest)
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
	planner := &apply.Planner{Client: s.dryRunCluster(s.context(), j.desired),
		NewNamespaces: map[string]bool{}, NewKinds: map[schema.GroupKind]bool{}}
	namespace := &apply.Namespacer{Ctx: s.context(), Clients: planner.Clients, Name: j.desired.Namespace,
		Labels: j.options.Install.NamespaceLabels, Annotations: j.options.Install.NamespaceAnnotations}
	if err := planner.Namespace(namespace); err != nil {
		return nil, err
	}
	if err := crds.Plan(planner, j.options.Upgrade.CRDs, rendered.crds); err != nil {
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
