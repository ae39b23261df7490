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
	output  kube.Output
}

// Tree is the output of "tree -o json".
type Tree struct {
	HelmOp   fleetview.Summary `json:"helmOp"`
	Releases []TreeRelease     `json:"releases"`
}

// TreeRelease is a release with its objects.
type TreeRelease struct {
	fleetview.Row
	Objects []TreeObject `json:"objects"`
	// Truncated is true if the release has more objects than HelmOp watches.
	Truncated bool `json:"truncated,omitempty"`
}

// TreeObject is an object of a release.
type TreeObject struct {
	Kind string `json:"kind"`
	// Name is the name of the object, or namespace/name for an object in a namespace.
	Name string `json:"name"`
	// Problem is the reason if the object is not healthy, or the difference if it has drifted. It is empty if the
	// status of the release does not name the object.
	Problem string `json:"problem,omitempty"`
}

func newTree(o kube.Options) *cobra.Command {
	t := &tree{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "tree HELMOP",
		Short: "Show a HelmOp, its releases and their objects as a tree",
		Long: `Show a HelmOp, its releases and their objects as a tree.

The objects are those of status.inventory: what HelmOp watches in the Cluster. The command marks objects
that the status of the release names as unhealthy, different or missing. It sends no request to a workload cluster.`,
		Example: `  kubectl helmop tree calico
  kubectl helmop tree calico --cluster prod-1
  kubectl helmop tree calico -o json`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: t.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return t.run(cmd.Context(), args[0]) },
	}
	t.Add(cmd)
	t.AddClusterFlag(cmd, &t.cluster, "Show the release in this Cluster only.")
	t.output.Add(cmd, "a tree", "json", "yaml")
	return cmd
}

func (t *tree) run(ctx context.Context, name string) error {
	if err := t.output.Validate(); err != nil {
		return err
	}
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
	tree := treeOf(helmOp, releases, t.Invocation())
	return t.output.Write(t.Streams.Out, tree, func(out io.Writer) error {
		_, err := io.WriteString(out, tree.draw())
		return err
	})
}

// treeOf returns a HelmOp, its releases and their objects. The most urgent releases come first. program is the program
// in the recommended commands.
func treeOf(helmOp *addonsv1.HelmOp, releases []*addonsv1.HelmOpRelease, program fleetview.Program) *Tree {
	w := fleetview.NewWorld([]*addonsv1.HelmOp{helmOp}, releases, nil)
	tree := &Tree{HelmOp: fleetview.SummaryOf(helmOp, program), Releases: make([]TreeRelease, 0, len(releases))}
	for _, release := range releases {
		item := TreeRelease{Row: w.RowOf(release), Objects: []TreeObject{}}
		if inventory := release.Status.Inventory; inventory != nil {
			item.Truncated = inventory.Truncated
			for _, kind := range inventory.Kinds {
				for _, object := range kind.Objects {
					item.Objects = append(item.Objects, TreeObject{Kind: kind.Kind, Name: object,
						Problem: fleetview.MarkOf(release, kind.Kind, object)})
				}
			}
		}
		tree.Releases = append(tree.Releases, item)
	}
	slices.SortFunc(tree.Releases, func(a, b TreeRelease) int { return fleetview.CompareRows(a.Row, b.Row) })
	return tree
}

// draw draws the tree.
func (t *Tree) draw() string {
	title := fmt.Sprintf("HelmOp %s: Ready %s", t.HelmOp.Name, t.HelmOp.Ready)
	if t.HelmOp.Ready != metav1.ConditionTrue && t.HelmOp.Reason != "" {
		title += " (" + t.HelmOp.Reason + ")"
	}
	root := treeprint.NewWithRoot(title)
	for i := range t.Releases {
		release := &t.Releases[i]
		text := fmt.Sprintf("HelmOpRelease %s: Cluster %s, %s", release.Release, release.Cluster, release.State)
		if release.Version != "" {
			text += ", version " + release.Version
		}
		if release.Message != "" {
			text += ": " + kube.Clip(release.Message, false)
		}
		branch := root.AddBranch(text)
		for _, object := range release.Objects {
			name := object.Kind + " " + object.Name
			if object.Problem != "" {
				name += ": " + object.Problem
			}
			branch.AddNode(name)
		}
		if release.Truncated {
			branch.AddNode("... and more objects, which are not watched")
		}
	}
	return root.String()
}
