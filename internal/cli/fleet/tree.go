// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	"github.com/xlab/treeprint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// tree is the command "tree".
type tree struct {
	kube.Base
	cluster string
}

func newTree(o kube.Options) *cobra.Command {
	t := &tree{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "tree HELMOP",
		Short: "Show a HelmOp, its releases and their objects as a tree",
		Long: `Show a HelmOp, its releases and their objects as a tree.

The objects are those of status.inventory: what HelmOp watches in the Cluster. Objects that are not healthy, differ from
the release or are missing are marked as far as the status of the release names them. No request goes to a workload
cluster.`,
		Example: `  kubectl helmop tree calico
  kubectl helmop tree calico --cluster prod-1`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: t.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args[0]) },
	}
	t.Add(cmd)
	t.AddClusterFlag(cmd, &t.cluster, "Show the release in this Cluster only.")
	return cmd
}

func (t *tree) run(ctx context.Context, name string) error {
	c, err := t.Connect()
	if err != nil {
		return err
	}
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return err
	}
	var releases []*addonsv1.HelmOpRelease
	if t.cluster == "" {
		releases, err = c.Releases(ctx, helmOp)
	} else {
		var release *addonsv1.HelmOpRelease
		release, err = c.Release(ctx, helmOp, t.cluster)
		releases = append(releases, release)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(t.Streams.Out, treeOf(helmOp, releases))
	return err
}

// treeOf draws a HelmOp, its releases and their objects.
func treeOf(helmOp *addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease) string {
	w := fleetview.NewWorld([]*addonsv1.HelmOp{helmOp}, releases, nil)
	summary := fleetview.SummaryOf(helmOp, fleetview.Program{})
	title := fmt.Sprintf("HelmOp %s: Ready %s", helmOp.Name, summary.Ready)
	if summary.Ready != metav1.ConditionTrue && summary.Reason != "" {
		title += " (" + summary.Reason + ")"
	}
	root := treeprint.NewWithRoot(title)
	rows := make([]fleetview.Row, 0, len(releases))
	byName := map[string]*addonsv1.HelmOpRelease{}
	for _, release := range releases {
		rows = append(rows, w.RowOf(release))
		byName[release.Name] = release
	}
	slices.SortFunc(rows, fleetview.CompareRows)
	for i := range rows {
		addRelease(root, &rows[i], byName[rows[i].Release])
	}
	return root.String()
}

func addRelease(root treeprint.Tree, row *fleetview.Row, release *addonsv1.HelmOpRelease) {
	text := fmt.Sprintf("HelmOpRelease %s: Cluster %s, %s", row.Release, row.Cluster, row.State)
	if row.Version != "" {
		text += ", version " + row.Version
	}
	if row.Message != "" {
		text += ": " + kube.Clip(row.Message, false)
	}
	branch := root.AddBranch(text)
	inventory := release.Status.Inventory
	if inventory == nil {
		return
	}
	for _, kind := range inventory.Kinds {
		for _, object := range kind.Objects {
			name := kind.Kind + " " + object
			if mark := fleetview.MarkOf(release, kind.Kind, object); mark != "" {
				name += ": " + mark
			}
			branch.AddNode(name)
		}
	}
	if inventory.Truncated {
		branch.AddNode("... and more objects, which are not watched")
	}
}
