// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// maxRecord is the size of the largest record that is read, uncompressed, in bytes.
const maxRecord = 64 << 20

// Record is the newest Helm revision of a release in a Cluster.
type Record struct {
	// Cluster is the Cluster of Cluster API.
	Cluster types.NamespacedName

	// Name and Namespace are the name and the namespace of the release.
	Name, Namespace string

	// Chart and Version are the name and the version of the chart.
	Chart, Version string

	// Revision is the Helm revision, and Status is its status.
	Revision int64
	Status   string

	// ChartAnnotations are the annotations of the chart.
	ChartAnnotations map[string]string
}

// IsUninstalled reports whether a release was uninstalled, or its uninstallation has begun.
func (r *Record) IsUninstalled() bool { return r.Status == "uninstalled" || r.Status == "uninstalling" }

// ReadRecord reads the content of a Secret in which Helm stores a Helm revision.
func ReadRecord(cluster types.NamespacedName, data []byte) (*Record, error) {
	decoded, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return nil, fmt.Errorf("the record is not base64: %w", err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(decoded))
	if err != nil {
		return nil, fmt.Errorf("the record is not compressed by gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(reader, maxRecord+1))
	if err != nil {
		return nil, fmt.Errorf("the record cannot be uncompressed: %w", err)
	}
	if len(text) > maxRecord {
		return nil, fmt.Errorf("the record has more than %d bytes", maxRecord)
	}
	var record struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Version   int64  `json:"version"`
		Info      struct {
			Status string `json:"status"`
		} `json:"info"`
		Chart struct {
			Metadata struct {
				Name        string            `json:"name"`
				Version     string            `json:"version"`
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"chart"`
	}
	if err := json.Unmarshal(text, &record); err != nil {
		return nil, fmt.Errorf("the record is not JSON: %w", err)
	}
	if record.Chart.Metadata.Version == "" {
		return nil, errors.New("the record has no version of a chart")
	}
	return &Record{Cluster: cluster, Name: record.Name, Namespace: record.Namespace,
		Chart: record.Chart.Metadata.Name, Version: record.Chart.Metadata.Version, Revision: record.Version,
		Status: record.Info.Status, ChartAnnotations: record.Chart.Metadata.Annotations}, nil
}

// HelmObjects are the objects that a migration from the helm command reads.
type HelmObjects struct {
	// Records are the newest records of a release, one for each Cluster with the release.
	Records []*Record

	// Clusters are all Clusters of the namespace.
	Clusters []*metav1.PartialObjectMetadata

	// HelmOps are all HelmOps of the namespace. They show which migrations have begun.
	HelmOps []*addonsv1.HelmOp
}

// helmOrigin is the beginning of MigratedFromAnnotation of a HelmOp that FromHelm has returned.
const helmOrigin = "Release/"

// FromHelm converts a release that users installed in Clusters with the helm command. source is the location of its
// chart, which a record does not contain. For a chart repository, source.Chart is by default the name in the record.
// Clusters with the same version of the chart and the same shard share one HelmOp. A HelmOp of an earlier run keeps its
// name and its Clusters: with another HelmOp, these releases would have two owners. The values stay in the records of
// the Clusters, because they may contain secrets. An upgrade reuses them.
func FromHelm(helmOp, namespace string, source addonsv1.ArtifactSource, objects HelmObjects) *Plan {
	plan, alike := &Plan{}, map[string]int{}
	for _, record := range objects.Records {
		name, origin := objects.earlier(record)
		key := name + " " + origin
		if name == "" {
			key += " " + apiutil.ShardTitle(objects.clusterOf(record))
		}
		i, ok := alike[key]
		if !ok {
			i = len(plan.Items)
			alike[key] = i
			item := Item{HelmOp: newHelmOp(namespace, name, origin)}
			item.setRecord(record, source)
			plan.Items = append(plan.Items, item)
		}
		item := &plan.Items[i]
		if record.Status != "deployed" {
			item.gap("Cluster "+record.Cluster.Name, "the release is %s: HelmOp cannot adopt it without a new Helm revision",
				record.Status)
		}
		item.Releases = append(item.Releases, Release{Cluster: record.Cluster, Name: record.Name,
			Namespace: record.Namespace, Revision: record.Revision})
	}
	plan.nameVersions(helmOp, objects)
	plan.sort()
	return plan
}

// earlier returns the name and the origin of the HelmOp of an earlier run for a record. The HelmOp whose label the
// Cluster has comes first: the HelmOp may have upgraded the release. A Cluster without a label joins a HelmOp only if
// the HelmOp has the shard of the Cluster, and still has the version of the record: otherwise the HelmOp would change
// the release. The name is empty without an earlier run.
func (o *HelmObjects) earlier(record *Record) (name, origin string) {
	release := helmOrigin + record.Namespace + "/" + record.Name + "@"
	origin = release + record.Version
	cluster := o.clusterOf(record)
	for _, helmOp := range o.HelmOps {
		from := helmOp.Annotations[addonsv1.MigratedFromAnnotation]
		if _, isMarked := cluster.Labels[markKey(addonsv1.MigratedClusterLabelPrefix, helmOp.Name)]; isMarked &&
			strings.HasPrefix(from, release) {
			return helmOp.Name, from
		}
		if from == origin && helmOp.Spec.Source.Ref == (addonsv1.ArtifactReference{Tag: record.Version}) &&
			apiutil.ShardTitle(helmOp) == apiutil.ShardTitle(cluster) {
			name = helmOp.Name
		}
	}
	return name, origin
}

// clusterOf returns the Cluster of a record. It has no labels if it does not exist.
func (o *HelmObjects) clusterOf(record *Record) *metav1.PartialObjectMetadata {
	for _, cluster := range o.Clusters {
		if client.ObjectKeyFromObject(cluster) == record.Cluster {
			return cluster
		}
	}
	return &metav1.PartialObjectMetadata{}
}

// nameVersions names the HelmOps that have no name yet. The HelmOp with the most Clusters gets the requested name,
// unless another HelmOp has it. The names of the others end with their version.
func (p *Plan) nameVersions(name string, objects HelmObjects) {
	helmOps, clusters, used := map[string]*addonsv1.HelmOp{}, byKey(objects.Clusters), map[string]bool{}
	for _, helmOp := range objects.HelmOps {
		helmOps[helmOp.Name] = helmOp
		used[helmOp.Name] = strings.HasPrefix(helmOp.Annotations[addonsv1.MigratedFromAnnotation], helmOrigin)
	}
	slices.SortStableFunc(p.Items, func(a, b Item) int { return len(b.Releases) - len(a.Releases) })
	for i := range p.Items {
		item := &p.Items[i]
		if item.HelmOp.Name == "" {
			isTaken := func(name string) bool {
				return used[name] || helmOps[name] != nil && !item.isSelected(helmOps[name], clusters)
			}
			versioned := name + "-" + strings.Map(nameRune, strings.ToLower(item.HelmOp.Spec.Source.Ref.Tag))
			item.HelmOp.Name = name
			for n := 1; isTaken(item.HelmOp.Name); n++ {
				item.HelmOp.Name = versioned
				if n > 1 {
					item.HelmOp.Name += fmt.Sprintf("-%d", n)
				}
			}
			used[item.HelmOp.Name] = true
		}
		item.selectMarked(clusters)
	}
}

// nameRune replaces characters that the name of an object must not contain.
func nameRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
		return r
	}
	return '-'
}

// setRecord sets the fields that come from the record of a release.
func (i *Item) setRecord(record *Record, source addonsv1.ArtifactSource) {
	spec := &i.HelmOp.Spec
	spec.Source = source
	spec.Source.Ref = addonsv1.ArtifactReference{Tag: record.Version}
	if !isOCI(source.URL) {
		i.setChart(source.URL, nonEmpty(source.Chart, record.Chart))
	}
	spec.Release.Name, spec.Release.Namespace = escape(record.Name), escape(record.Namespace)
	upgrade(i.HelmOp).ValuesPolicy = addonsv1.ValuesPolicyResetThenReuse
	i.gap("values", "they stay in Helm's records in the Clusters, and upgrades use them again; to manage them, copy them "+
		"to spec.values and spec.valuesFrom, and remove spec.upgrade.valuesPolicy")
	i.gap("options", "a record has no options of Helm, such as timeouts and hooks; the HelmOp has the defaults")
}
