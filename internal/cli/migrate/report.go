// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/rendering"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/migrate"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/preview"
)

// report prints what a migration would do.
func (m *migration) report(ctx context.Context, plan *migrate.Plan) error {
	blocked := 0
	for i := range plan.Items {
		item := &plan.Items[i]
		if len(item.Blocked()) > 0 {
			blocked++
		}
		text := describe(item)
		if m.preview && item.HelmOp != nil {
			text += m.compare(ctx, item)
		}
		if _, err := fmt.Fprintln(m.Streams.Out, text); err != nil {
			return err
		}
	}
	if blocked > 0 {
		m.Note("%s solved before the migration; see above",
			plural.Count(blocked, "object has gaps that must be", "objects have gaps that must be"))
	}
	program := m.Invocation()
	m.Note("to hand over: %s migrate %s%s", program.Name, strings.Join(m.applyArgs(), " "), program.Flags)
	return nil
}

// applyArgs are the arguments with which the command carries out what it has reported.
func (m *migration) applyArgs() []string {
	args := append([]string{"--from", m.from, "-n", m.client.Namespace}, m.names...)
	for _, flag := range []struct{ name, value string }{{"release", m.release}, {"chart-url", m.chartURL},
		{"chart", m.chart}, {"chart-secret", m.chartSecret}, {"chart-cert-secret", m.chartCertSecret}} {
		if flag.value != "" {
			args = append(args, "--"+flag.name, flag.value)
		}
	}
	args = append(args, "--apply")
	if _, ok := m.tool.(forgetter); ok {
		args = append(args, "--accept-install")
	}
	return args
}

// describe returns the text about an item, without the preview.
func describe(item *migrate.Item) string {
	var text strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&text, format+"\n", args...) }
	line("%s", item.Title())
	if item.HelmOp != nil {
		shard := ""
		if _, ok := item.HelmOp.Labels[addonsv1.ShardLabel]; ok {
			shard = " " + apiutil.ShardTitle(item.HelmOp)
		}
		line("  HelmOp %s/%s%s", item.HelmOp.Namespace, item.HelmOp.Name, shard)
	}
	names := make([]string, 0, len(item.Releases))
	for _, cluster := range item.Clusters() {
		names = append(names, cluster.Name)
	}
	line("  %s%s", plural.Count(len(names), "Cluster", "Clusters"), prefixed(": ",
		plural.Few(names, fleetview.MaxNamedClusters)))
	for _, gap := range item.Gaps {
		what := "not carried over"
		if gap.Blocks {
			what = "to be solved first"
		}
		line("  %s: %s", what, gap)
	}
	return strings.TrimSuffix(text.String(), "\n") + "\n"
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// compare returns the changes that the HelmOp of an item would make in its Clusters. The HelmOp of an earlier run may
// differ from the HelmOp of the item.
func (m *migration) compare(ctx context.Context, item *migrate.Item) string {
	helmOp, err := m.planned(ctx, item)
	if err != nil {
		return fmt.Sprintf("  no preview: %v\n", err)
	}
	groups, err := m.groups(ctx, item, helmOp)
	if err != nil {
		return fmt.Sprintf("  no preview: %v\n", err)
	}
	clusters := 0
	for i := range groups {
		clusters += len(groups[i].Clusters)
	}
	var text strings.Builder
	for i := range groups {
		_, _ = fmt.Fprintf(&text, "  preview: %s: %s\n", rendering.GroupTitle(&groups[i], clusters), groups[i].Summary())
	}
	if names := uncovered(item, groups); len(names) > 0 {
		_, _ = fmt.Fprintf(&text, "  preview: %s: %s\n", plural.Few(names, fleetview.MaxNamedClusters), whyUncovered)
	}
	return text.String()
}

// whyUncovered explains why a preview does not have a Cluster of an item.
const whyUncovered = "no release of the HelmOp, because it does not select the Cluster, or the Cluster is being " +
	"deleted or in another shard"

// uncovered returns the names of the Clusters of an item that a preview does not have.
func uncovered(item *migrate.Item, groups []preview.Group) []string {
	var names []string
	for _, cluster := range item.Clusters() {
		title := apiutil.TitleOf(item.HelmOp.Namespace, cluster)
		if !slices.ContainsFunc(groups, func(g preview.Group) bool { return slices.Contains(g.Clusters, title) }) {
			names = append(names, title)
		}
	}
	return names
}

// groups returns the changes that a HelmOp of an item would make in its Clusters if it were not paused.
func (m *migration) groups(ctx context.Context, item *migrate.Item, helmOp *addonsv1.HelmOp) ([]preview.Group, error) {
	helmOp = helmOp.DeepCopy()
	helmOp.Spec.Paused = false
	return m.comparison.Groups(ctx, &m.Base, helmOp, func(reader client.Reader) client.Reader {
		return markedReader{reader, item.Marks}
	})
}

// printHelmOps prints the HelmOps of a plan. Gaps are printed as comments.
func (m *migration) printHelmOps(plan *migrate.Plan) error {
	for i := range plan.Items {
		item := &plan.Items[i]
		text := "---\n"
		for line := range strings.Lines(describe(item)) {
			text += "# " + strings.TrimSuffix(line, "\n") + "\n"
		}
		for _, mark := range item.Marks {
			what := "annotation"
			if mark.IsLabel {
				what = "label"
			}
			text += fmt.Sprintf("# needs the %s %s=%s on Cluster %s\n", what, mark.Key, mark.Value, mark.Cluster.Name)
		}
		if item.HelmOp != nil {
			data, err := marshal(m.generated(item))
			if err != nil {
				return err
			}
			text += string(data)
		}
		if _, err := fmt.Fprint(m.Streams.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// marshal returns a HelmOp as YAML, without its status.
func marshal(helmOp *addonsv1.HelmOp) ([]byte, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(helmOp)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	return yaml.Marshal(object)
}
