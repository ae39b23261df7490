// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/charts"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/bench/contestant"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/registry"
)

// HelmOp describes a HelmOp.
type HelmOp struct {
	Namespace, Name string
	// Shard is the shard of the HelmOp. Default: the HelmOp has no label with a shard.
	Shard string
	// Groups are the groups of Clusters that it selects.
	Groups []string
	// Chart is the name of the repository, Tag the tag to install.
	Chart, Tag string
	// ReleaseNamespace is a pattern, see contestant.NamespaceOf.
	ReleaseNamespace string
	// Orphan keeps the releases when the HelmOp is deleted.
	Orphan bool
	// Interval is the source interval. Default: HelmOp's own.
	Interval time.Duration
}

// Push pushes a chart under a tag.
func (w *World) Push(ctx context.Context, chart charts.Chart, tag string) (digest string, err error) {
	pushed, err := w.Env.Registry.PushChart(ctx, repository(chart.Name), tag, registry.ChartArchive(chart.Archive))
	return pushed.Digest.String(), err
}

func repository(chart string) string { return "charts/" + chart }

// Create creates the HelmOp.
func (h HelmOp) Create(ctx context.Context, w *World) error {
	policy := addonsv1.DeletionPolicyUninstall
	if h.Orphan {
		policy = addonsv1.DeletionPolicyOrphan
	}
	source := w.Env.Source(repository(h.Chart), addonsv1.ArtifactReference{Tag: h.Tag})
	source.Interval = metav1.Duration{Duration: h.Interval}
	err := w.Env.Client.Create(ctx, &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name, Labels: shardLabels(h.Shard)},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: selecting(h.Groups),
			Source:          source,
			Release: addonsv1.ReleaseTemplate{
				Name: h.Chart, Namespace: contestant.NamespaceOf(h.ReleaseNamespace, "{{ .Cluster.metadata.name }}", h.Chart),
			},
			Values:         values("info"),
			DeletionPolicy: policy,
			// The other contestants delete without a confirmation.
			MaxDeletions: new(intstr.FromString("100%")),
		},
	})
	if err != nil {
		return fmt.Errorf("create the HelmOp %s: %w", h.Name, err)
	}
	return nil
}

func values(logLevel string) *apiextensionsv1.JSON {
	return &apiextensionsv1.JSON{Raw: fmt.Appendf(nil, `{"cluster":"{{ .Cluster.metadata.name }}","logLevel":%q}`,
		logLevel)}
}

// Change changes the HelmOp.
func (h HelmOp) Change(ctx context.Context, w *World, change func(*addonsv1.HelmOpSpec)) error {
	helmOp := &addonsv1.HelmOp{}
	if err := w.Env.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, helmOp); err != nil {
		return err
	}
	before := helmOp.DeepCopy()
	change(&helmOp.Spec)
	return w.Env.Client.Patch(ctx, helmOp, client.MergeFrom(before))
}

// SetLogLevel changes the value logLevel.
func (h HelmOp) SetLogLevel(ctx context.Context, w *World, level string) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.Values = values(level) })
}

// SetInterval changes the source interval.
func (h HelmOp) SetInterval(ctx context.Context, w *World, interval time.Duration) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.Source.Interval = metav1.Duration{Duration: interval} })
}

// LevelFor returns a template with another log level for a group of Clusters. All others have the level info.
func LevelFor(group, level string) string {
	return fmt.Sprintf("{{ if eq (index .Cluster.metadata.labels %q) %q }}%s{{ else }}info{{ end }}", GroupLabel, group,
		level)
}

func selecting(groups []string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: GroupLabel,
		Operator: metav1.LabelSelectorOpIn, Values: groups}}}
}

// Select selects other groups of Clusters.
func (h HelmOp) Select(ctx context.Context, w *World, groups ...string) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.ClusterSelector = selecting(groups) })
}

// SetTag changes the tag to install.
func (h HelmOp) SetTag(ctx context.Context, w *World, tag string) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.Source.Ref.Tag = tag })
}

// Delete deletes the HelmOp and returns at once.
func (h HelmOp) Delete(ctx context.Context, w *World) error {
	return w.Env.Client.Delete(ctx, &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}})
}

// WaitReady waits until the HelmOp is Ready with n Clusters.
func (h HelmOp) WaitReady(ctx context.Context, w *World, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		helmOp := &addonsv1.HelmOp{}
		if err := w.Env.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, helmOp); err != nil {
			return err
		}
		status := &helmOp.Status
		if status.ObservedGeneration == helmOp.Generation && conditions.IsTrue(helmOp, addonsv1.ReadyCondition) &&
			status.Clusters != nil && int(status.Clusters.Ready) == n && status.Clusters.UpToDate == status.Clusters.Ready {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the HelmOp %s is not Ready with %d Clusters: %w: %+v", h.Name, n, ctx.Err(), status.Clusters)
		case <-ticker.C:
		}
	}
}
