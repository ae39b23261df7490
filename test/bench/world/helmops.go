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
	// Groups are the groups of Clusters that it selects.
	Groups []string
	// Chart is the repository's name, Tag what is installed of it.
	Chart, Tag string
	// ReleaseNamespace is a pattern, see contestant.NamespaceOf.
	ReleaseNamespace string
	// Orphan leaves the releases when the HelmOp goes.
	Orphan bool
	// Interval is how often the tag is looked at. Default: HelmOp's own.
	Interval time.Duration
}

// Push pushes a chart under a tag.
func (w *World) Push(ctx context.Context, chart charts.Chart, tag string) (digest string, err error) {
	pushed, err := w.Env.Registry.PushChart(ctx, repository(chart.Name), tag, registry.ChartArchive(chart.Archive))
	return pushed.Digest.String(), err
}

func repository(chart string) string { return "charts/" + chart }

// Create creates it.
func (h HelmOp) Create(ctx context.Context, w *World) error {
	policy := addonsv1.DeletionPolicyUninstall
	if h.Orphan {
		policy = addonsv1.DeletionPolicyOrphan
	}
	source := w.Env.Source(repository(h.Chart), addonsv1.ArtifactReference{Tag: h.Tag})
	source.Interval = metav1.Duration{Duration: h.Interval}
	err := w.Env.Client.Create(ctx, &addonsv1.HelmOp{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name},
		Spec: addonsv1.HelmOpSpec{
			ClusterSelector: selecting(h.Groups),
			Source:          source,
			Release: addonsv1.ReleaseTemplate{
				Name: h.Chart, Namespace: contestant.NamespaceOf(h.ReleaseNamespace, "{{ .Cluster.metadata.name }}", h.Chart),
			},
			Values:         values("info"),
			DeletionPolicy: policy,
			// The other contestants delete without asking.
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

// Change changes it.
func (h HelmOp) Change(ctx context.Context, w *World, change func(*addonsv1.HelmOpSpec)) error {
	helmOp := &addonsv1.HelmOp{}
	if err := w.Env.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, helmOp); err != nil {
		return err
	}
	before := helmOp.DeepCopy()
	change(&helmOp.Spec)
	return w.Env.Client.Patch(ctx, helmOp, client.MergeFrom(before))
}

// SetLogLevel changes a value.
func (h HelmOp) SetLogLevel(ctx context.Context, w *World, level string) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.Values = values(level) })
}

// LevelFor is a log level that is another one for a group of Clusters than it is for all others, where it is info.
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

// SetTag has another version installed.
func (h HelmOp) SetTag(ctx context.Context, w *World, tag string) error {
	return h.Change(ctx, w, func(spec *addonsv1.HelmOpSpec) { spec.Source.Ref.Tag = tag })
}

// Delete deletes it and returns at once.
func (h HelmOp) Delete(ctx context.Context, w *World) error {
	return w.Env.Client.Delete(ctx, &addonsv1.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}})
}

// WaitReady waits until it is Ready with n Clusters.
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
