// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// history is the command "history".
type history struct {
	kube.Base
	cluster string
	output  kube.Output
}

func newHistory(o kube.Options) *cobra.Command {
	h := &history{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "history HELMOP",
		Short: "List the HelmOp revisions of a HelmOp, or the last actions on its release in one Cluster",
		Long: `List the HelmOp revisions of a HelmOp, or the last actions on its release in one Cluster.

A HelmOp revision is the desired state of a HelmOp at one time. With --cluster, the list has the actions in
status.history with the Helm revisions that they created, at most 5. With -o wide, the table of HelmOp revisions has the
digests of the charts. With -o json or yaml, the list has the HelmOpRevisions or the actions as they are in the API.`,
		Example: `  kubectl helmop history calico
  kubectl helmop history calico -o wide
  kubectl helmop history calico --cluster prod-1
  kubectl helmop history calico --cluster prod-1 -o json`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: h.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return h.run(cmd.Context(), args[0]) },
	}
	h.Add(cmd)
	h.AddClusterFlag(cmd, &h.cluster, "List the actions on the release in this Cluster.")
	h.output.Add(cmd, "a table", "wide", "json", "yaml")
	return cmd
}

func (h *history) run(ctx context.Context, name string) error {
	if err := h.output.Validate(); err != nil {
		return err
	}
	c, err := h.Connect()
	if err != nil {
		return err
	}
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return err
	}
	if h.cluster != "" {
		release, err := c.Release(ctx, helmOp, h.cluster)
		if err != nil {
			return err
		}
		return h.output.Write(h.Streams.Out, nonNil(release.Status.History), func(out io.Writer) error {
			if len(release.Status.History) == 0 {
				h.Note("No actions are recorded.")
				return nil
			}
			return actionsTable(release, h.Now()).Write(out)
		})
	}
	revisions, err := c.Revisions(ctx, helmOp)
	if err != nil {
		return err
	}
	for _, revision := range revisions {
		plain(revision, addonsv1.GroupVersion.WithKind("HelmOpRevision"))
	}
	return h.output.Write(h.Streams.Out, nonNil(revisions), func(out io.Writer) error {
		if len(revisions) == 0 {
			h.Note("No HelmOp revisions are recorded: no Cluster could get the release yet.")
			return nil
		}
		return h.table(revisions).Write(out)
	})
}

// plain brings an object into the form that kubectl prints: with its kind, and without the managers of its fields.
func plain(object client.Object, kind schema.GroupVersionKind) {
	object.GetObjectKind().SetGroupVersionKind(kind)
	object.SetManagedFields(nil)
}

// table returns the table of HelmOp revisions.
func (h *history) table(revisions []*addonsv1.HelmOpRevision) *kube.Table {
	wide := h.output.IsWide()
	t := kube.NewTable(wide, false, "HELMOP-REVISION", "PHASE", "GOOD", "VERSION", "STARTED", "ENDED", "+DIGEST", "WHY")
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
		t.Add(kube.Number(spec.Number), string(status.Phase), good, chart.Version,
			fleetview.Age(h.Now(), status.StartedAt.Time),
			fleetview.Age(h.Now(), status.EndedAt.Time), chart.Digest, kube.Clip(status.Reason, wide))
	}
	return t
}

// versions is the command "versions".
type versions struct {
	kube.Base
	allNamespaces bool
	output        kube.Output

	// checkRegistry, registry and timeout are for the lookup of newer versions in registries.
	checkRegistry bool
	registry      registryaccess.ReadFlags
	timeout       time.Duration
}

func newVersions(o kube.Options) *cobra.Command {
	v := &versions{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "versions [HELMOP...]",
		Short: "Count which chart versions run in which Clusters",
		Long: `Count which chart versions run in which Clusters. The versions are those that HelmOp observed last. DESIRED is
"yes" for the version that the source of the HelmOp was resolved to.

With --check-registry, NEWER has the newest version that spec.source.ref accepts and the newest release in the registry,
if they are newer than the version of the row. The command lists the tags with the credentials of the HelmOp, which it
reads with your rights, or with those of your Docker configuration.`,
		Example: `  kubectl helmop versions -A
  kubectl helmop versions calico -o json

  # Which HelmOps could be upgraded?
  kubectl helmop versions -A --check-registry`,
		Args:              kube.Args(0, -1),
		ValidArgsFunction: v.CompleteHelmOps(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return v.run(cmd.Context(), args) },
	}
	v.Add(cmd)
	cmd.Flags().BoolVarP(&v.allNamespaces, "all-namespaces", "A", false, "Count in all namespaces.")
	v.output.Add(cmd, "a table", "json", "yaml")
	cmd.Flags().BoolVar(&v.checkRegistry, "check-registry", false, "Look for newer versions in the registries.")
	v.registry.Add(cmd)
	cmd.Flags().DurationVar(&v.timeout, "timeout", 2*time.Minute,
		"How long the requests to the registries may take; 0 is without a limit.")
	return cmd
}

func (v *versions) run(ctx context.Context, wanted []string) error {
	if err := v.output.Validate(); err != nil {
		return err
	}
	c, err := v.Connect()
	if err != nil {
		return err
	}
	if v.allNamespaces {
		c.Namespace = ""
	}
	in := client.InNamespace(c.Namespace)
	helmOps, _, err := kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, in)
	if err != nil {
		return err
	}
	releases, _, err := kube.ListAll[*addonsv1.HelmOpRelease](ctx, c, &addonsv1.HelmOpReleaseList{}, in)
	if err != nil {
		return err
	}
	byKey := fleetview.ByKey(helmOps)
	if err := checkNames(byKey, wanted, c.Namespace); err != nil {
		return err
	}
	counts := fleetview.CountVersions(byKey, releases, wanted)
	if v.checkRegistry {
		if err := v.addNewer(ctx, c, byKey, counts); err != nil {
			return err
		}
	}
	return v.output.Write(v.Streams.Out, nonNil(counts), func(out io.Writer) error {
		if len(counts) == 0 {
			v.Note("No releases found.")
			return nil
		}
		return v.table(counts).Write(out)
	})
}

// table returns the table of the counts.
func (v *versions) table(counts []fleetview.VersionCount) *kube.Table {
	columns := []string{"HELMOP", "CHART", "VERSION", "DESIRED", "COUNT", "CLUSTERS"}
	if v.checkRegistry {
		columns = slices.Insert(columns, 4, "NEWER")
	}
	if v.allNamespaces {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := kube.NewTable(false, false, columns...)
	for i := range counts {
		count := &counts[i]
		version, desired := count.Version, ""
		if version == "" {
			version = kube.None
		}
		if count.Desired {
			desired = "yes"
		}
		cells := []string{count.HelmOp, count.Chart, version, desired, kube.Number(int64(len(count.Clusters))),
			plural.Few(slices.Compact(count.Clusters), fleetview.MaxNamedClusters)}
		if v.checkRegistry {
			cells = slices.Insert(cells, 4, strings.Join(count.Newer, ", "))
		}
		if v.allNamespaces {
			cells = append([]string{count.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}
