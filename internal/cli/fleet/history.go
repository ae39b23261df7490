// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// history is the command "history".
type history struct {
	base
	cluster string
	output  string
}

func newHistory(o Options) *cobra.Command {
	h := &history{base: newBase(o)}
	cmd := &cobra.Command{
		Use:   "history HELMOP",
		Short: "List the HelmOp revisions of a HelmOp, or the last actions on its release in one Cluster",
		Long: `List the HelmOp revisions of a HelmOp, or the last actions on its release in one Cluster.

A HelmOp revision is the desired state of a HelmOp at one time. With --cluster, the list has the actions in
status.history with the Helm revisions that they created, at most 5.`,
		Example: `  kubectl helmop history calico
  kubectl helmop history calico -o wide
  kubectl helmop history calico --cluster prod-1`,
		Args:              names(1, 1),
		ValidArgsFunction: h.completeHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), args[0]) },
	}
	h.add(cmd)
	addClusterFlag(cmd, &h.base, &h.cluster, "List the actions on the release in this Cluster.")
	cmd.Flags().StringVarP(&h.output, "output", "o", "", "Output format: wide, with the digests (default: a table).")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (h *history) run(ctx context.Context, name string) error {
	wide := h.output == "wide"
	if h.output != "" && !wide {
		return usagef("--output %q is unknown; use wide", h.output)
	}
	c, err := h.connect()
	if err != nil {
		return err
	}
	helmOp, err := c.helmOp(ctx, name)
	if err != nil {
		return err
	}
	if h.cluster != "" {
		release, err := c.release(ctx, helmOp, h.cluster)
		if err != nil {
			return err
		}
		if len(release.Status.History) == 0 {
			h.note("No actions are recorded.")
			return nil
		}
		return actionsTable(release, h.Now()).write(h.Streams.Out)
	}
	revisions, err := c.revisions(ctx, helmOp)
	if err != nil {
		return err
	}
	if len(revisions) == 0 {
		h.note("No HelmOp revisions are recorded: no Cluster could get the release yet.")
		return nil
	}
	t := newTable(wide, false, "HELMOP-REVISION", "PHASE", "GOOD", "VERSION", "STARTED", "ENDED", "+DIGEST", "WHY")
	for _, revision := range revisions {
		spec, status := &revision.Spec, &revision.Status
		var chart addonsv1.ResolvedArtifact
		if spec.Artifact != nil {
			chart = *spec.Artifact
		}
		good := ""
		if status.Good {
			good = "yes"
		}
		t.add(number(spec.Number), string(status.Phase), good, chart.Version, age(h.Now(), status.StartedAt.Time),
			age(h.Now(), status.EndedAt.Time), chart.Digest, clip(status.Reason, wide))
	}
	return t.write(h.Streams.Out)
}

// versions is the command "versions".
type versions struct {
	base
	allNamespaces bool
	output        string
}

// VersionCount is how many Clusters have a version of a chart.
type VersionCount struct {
	Namespace string `json:"namespace"`
	HelmOp    string `json:"helmOp"`
	Chart     string `json:"chart"`
	// Version is the observed version; empty for releases that are not installed.
	Version string `json:"version"`
	// Desired is true if the HelmOp resolved its source to the version.
	Desired  bool     `json:"desired"`
	Clusters []string `json:"clusters"`
}

func newVersions(o Options) *cobra.Command {
	v := &versions{base: newBase(o)}
	cmd := &cobra.Command{
		Use:   "versions [HELMOP...]",
		Short: "Count which chart versions run in which Clusters",
		Long: `Count which chart versions run in which Clusters. The versions are those that HelmOp observed last. DESIRED is
"yes" for the version that the source of the HelmOp was resolved to.`,
		Example: `  kubectl helmop versions -A
  kubectl helmop versions calico -o json`,
		Args:              names(0, -1),
		ValidArgsFunction: v.completeHelmOps(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	v.add(cmd)
	cmd.Flags().BoolVarP(&v.allNamespaces, "all-namespaces", "A", false, "Count in all namespaces.")
	cmd.Flags().StringVarP(&v.output, "output", "o", "", "Output format: json or yaml (default: a table).")
	return cmd
}

func (v *versions) run(ctx context.Context, wanted []string) error {
	if !slices.Contains([]string{"", "json", "yaml"}, v.output) {
		return usagef("--output %q is unknown; use json or yaml", v.output)
	}
	c, err := v.connect()
	if err != nil {
		return err
	}
	if v.allNamespaces {
		c.namespace = ""
	}
	in := client.InNamespace(c.namespace)
	helmOps, _, err := listAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, in)
	if err != nil {
		return err
	}
	releases, _, err := listAll[*addonsv1.HelmOpRelease](ctx, c, &addonsv1.HelmOpReleaseList{}, in)
	if err != nil {
		return err
	}
	counts := countVersions(byKey(helmOps), releases, wanted)
	if v.output != "" {
		return writeData(v.Streams.Out, v.output, nonNil(counts))
	}
	if len(counts) == 0 {
		v.note("No releases found.")
		return nil
	}
	columns := []string{"HELMOP", "CHART", "VERSION", "DESIRED", "COUNT", "CLUSTERS"}
	if v.allNamespaces {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := newTable(false, false, columns...)
	for _, count := range counts {
		version, desired := count.Version, ""
		if version == "" {
			version = none
		}
		if count.Desired {
			desired = "yes"
		}
		cells := []string{count.HelmOp, count.Chart, version, desired, number(int64(len(count.Clusters))),
			plural.Few(slices.Compact(count.Clusters), maxNamedClusters)}
		if v.allNamespaces {
			cells = append([]string{count.Namespace}, cells...)
		}
		t.add(cells...)
	}
	return t.write(v.Streams.Out)
}

// countVersions counts releases by HelmOp and observed version. wanted are the names of HelmOps; none for all.
func countVersions(helmOps map[client.ObjectKey]*addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease,
	wanted []string,
) []VersionCount {
	var counts []VersionCount
	type versionKey struct{ Namespace, HelmOp, Chart, Version string }
	index := map[versionKey]int{}
	for _, release := range releases {
		name := apiutil.HelmOpOf(release)
		if len(wanted) > 0 && !slices.Contains(wanted, name) {
			continue
		}
		key := versionKey{Namespace: release.Namespace, HelmOp: name}
		if observed := release.Status.Release; observed != nil {
			key.Chart, key.Version = observed.Chart, observed.Version
		}
		at, ok := index[key]
		if !ok {
			at = len(counts)
			index[key] = at
			helmOp := helmOps[client.ObjectKey{Namespace: key.Namespace, Name: key.HelmOp}]
			counts = append(counts, VersionCount{
				Namespace: key.Namespace, HelmOp: key.HelmOp, Chart: key.Chart, Version: key.Version,
				Desired: key.Version != "" && helmOp != nil && helmOp.Status.Artifact != nil &&
					helmOp.Status.Artifact.Version == key.Version,
			})
		}
		counts[at].Clusters = append(counts[at].Clusters, apiutil.ClusterTitle(release))
	}
	for i := range counts {
		slices.Sort(counts[i].Clusters)
	}
	slices.SortFunc(counts, func(a, b VersionCount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.HelmOp, b.HelmOp),
			cmp.Compare(len(b.Clusters), len(a.Clusters)), cmp.Compare(a.Version, b.Version))
	})
	return counts
}
