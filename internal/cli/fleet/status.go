// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// status is the command "status".
type status struct {
	kube.Base
	fleetview.Filter
	labelSelector string
	allNamespaces bool
	noFold        bool
	noHeaders     bool
	watch         bool
	live          bool
	exitCode      bool
	output        kube.Output
}

// Status is the output of "status -o json".
type Status struct {
	HelmOps []fleetview.Summary `json:"helmOps"`
	Rows    []fleetview.Row     `json:"clusters"`
}

func newStatus(o kube.Options) *cobra.Command {
	s := &status{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "status [HELMOP...]",
		Short: "Show the state of HelmOps in their Clusters, unhealthy first",
		Long: `Show the state of HelmOps in their Clusters, unhealthy first.

The first lines summarize each HelmOp: the phase of its rollout, its progress, what it waits for, and the command that
continues it. The table has a row for each HelmOp and Cluster. Rows with the same state, version and message are put
together; --no-fold shows each of them.

States, the most urgent first: ` + fleetview.StateNames() + `.
Stalled, Failed, Unreachable and Drifted are unhealthy.`,
		Example: `  # What is broken in this namespace, and what to do?
  kubectl helmop status

  # All namespaces, only what is unhealthy
  kubectl helmop status -A --state Stalled,Failed,Unreachable,Drifted

  # One HelmOp in the Clusters of a wave
  kubectl helmop status calico --wave canary

  # Everything in one Cluster, for a script
  kubectl helmop status --cluster prod-1 -o json

  # Fail in a pipeline if something is unhealthy
  kubectl helmop status calico --exit-code

  # Follow a rollout on the terminal
  kubectl helmop status calico --live

  # Print a line for each change
  kubectl helmop status -w`,
		Args:              kube.Args(0, -1),
		ValidArgsFunction: s.CompleteHelmOps(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.HelmOps = args
			err := s.run(cmd.Context())
			if err != nil && s.exitCode && !errors.Is(err, kube.ErrUnhealthy) {
				return kube.NoResult(err)
			}
			return err
		},
	}
	s.Add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "Show the HelmOps of all namespaces.")
	flags.StringSliceVar(&s.Clusters, "cluster", nil,
		"Show these Clusters only: NAME, or NAMESPACE/NAME for a Cluster of another namespace.")
	// A string slice would drop the empty name.
	flags.StringArrayVar(&s.Waves, "wave", nil,
		`Show the Clusters of these waves of spec.rollout only; --wave="" is for the Clusters in no wave.`)
	flags.StringSliceVar(&s.States, "state", nil, "Show these states only.")
	flags.StringVarP(&s.labelSelector, "selector", "l", "", "Show Clusters with these labels only.")
	flags.BoolVar(&s.noFold, "no-fold", false, "Show a row for each Cluster, also if rows are alike.")
	flags.BoolVar(&s.noHeaders, "no-headers", false, "Print neither the header of the table nor the summaries.")
	flags.BoolVarP(&s.watch, "watch", "w", false, "After the table, print a line for each change.")
	flags.BoolVar(&s.live, "live", false, "Draw the status again after each change, with a bar for each rollout, until "+
		"Ctrl-C. If the output is not a terminal, this is the same as --watch.")
	flags.BoolVar(&s.exitCode, "exit-code", false,
		"Exit with 1 if something is unhealthy, and with a greater code for errors. With filters, only the shown Clusters "+
			"count. It is an error if there are no HelmOps, or if a Cluster, wave or label matches nothing.")
	s.output.Add(cmd, "a table", "wide", "json", "yaml", "name")
	_ = cmd.RegisterFlagCompletionFunc("cluster", s.CompleteClusters)
	_ = cmd.RegisterFlagCompletionFunc("wave", s.CompleteWaves)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(strings.Split(fleetview.StateNames(), ", "),
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (s *status) validate() (err error) {
	if s.Selector, err = labels.Parse(s.labelSelector); err != nil {
		return kube.Usagef("--selector %q: %v", s.labelSelector, err)
	}
	if len(s.Waves) > 0 {
		s.Waves = strings.Split(strings.Join(s.Waves, ","), ",")
	}
	for _, state := range s.States {
		if !slices.ContainsFunc(fleetview.States,
			func(known fleetview.State) bool { return strings.EqualFold(string(known), state) }) {
			return kube.Usagef("--state %q is unknown; use some of %s", state, fleetview.StateNames())
		}
	}
	if err := s.output.Validate(); err != nil {
		return err
	}
	if (s.watch || s.live) && (s.output.IsData() || s.output.Format == "name") {
		return kube.Usagef("--watch and --live print a table and cannot be used with -o %s", s.output.Format)
	}
	if (s.watch || s.live) && s.exitCode {
		return kube.Usagef("--watch or --live, and --exit-code, cannot be used together")
	}
	return nil
}

func (s *status) run(ctx context.Context) error {
	if err := s.validate(); err != nil {
		return err
	}
	c, err := s.Connect()
	if err != nil {
		return err
	}
	if s.allNamespaces {
		c.Namespace = ""
	}
	if terminal := s.Terminal(); s.live && terminal != nil {
		return s.runLive(ctx, c, terminal)
	}
	if s.watch || s.live {
		return s.runWatch(ctx, c)
	}
	w, _, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	return s.print(w, s.rowWriter())
}

// read lists the HelmOps, releases and Clusters. If a HelmOp selects Clusters in other namespaces and the user may list
// them, it lists the Clusters of all namespaces.
func (s *status) read(ctx context.Context, c *kube.Client) (*fleetview.World, clusterAccess, error) {
	in := client.InNamespace(c.Namespace)
	helmOps, _, err := kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, in)
	if err != nil {
		return nil, clusterAccess{}, err
	}
	releases, _, err := kube.ListAll[*addonsv1.HelmOpRelease](ctx, c, &addonsv1.HelmOpReleaseList{}, in)
	if err != nil {
		return nil, clusterAccess{}, err
	}
	w := fleetview.NewWorld(helmOps, releases, nil)
	if err := checkNames(w.HelmOps, s.HelmOps, c.Namespace); err != nil {
		return nil, clusterAccess{}, err
	}
	access, err := accessTo(w, c.Namespace, func(namespace string) error {
		clusters, _, err := kube.ListAll[*unstructured.Unstructured](ctx, c, apiutil.NewClusterList(),
			client.InNamespace(namespace))
		if err == nil {
			w.Clusters = fleetview.ByKey(clusters)
		}
		return err
	})
	if err == nil {
		err = s.checkAccess(w, access)
	}
	if err == nil && access.denied != nil {
		s.Note("warning: %s", access.warning())
	}
	return w, access, err
}

// checkAccess returns an error if a filter for waves or labels could omit a row because the user may not list its
// Cluster. Without such a filter, the row is shown.
func (s *status) checkAccess(w *fleetview.World, access clusterAccess) error {
	if access.denied == nil || len(s.Waves) == 0 && s.Selector.Empty() {
		return nil
	}
	all := fleetview.Filter{HelmOps: s.HelmOps, Clusters: s.Clusters}
	_, rows := all.View(w, s.Invocation())
	if access.isBlind || slices.ContainsFunc(rows, func(r fleetview.Row) bool { return !access.covers(r.ClusterKey()) }) {
		return access.denied
	}
	return nil
}

// checkNames returns an error if a HelmOp with one of the names does not exist.
func checkNames(helmOps map[client.ObjectKey]*addonsv1.HelmOp, names []string, namespace string) error {
	for _, name := range names {
		found := false
		for key := range helmOps {
			found = found || key.Name == name
		}
		if !found {
			return kube.NoHelmOp(namespace, name)
		}
	}
	return nil
}

func (s *status) print(w *fleetview.World, write rowWriter) error {
	summaries, rows := s.View(w, s.Invocation())
	if err := s.printTo(s.Streams.Out, summaries, rows, write); err != nil {
		return err
	}
	if !s.exitCode {
		return nil
	}
	if len(w.HelmOps)+len(w.Releases) == 0 {
		return errors.New("nothing was checked: there are no HelmOps; check --namespace and --context")
	}
	if unmatched := s.Unmatched(w); len(unmatched) > 0 {
		return fmt.Errorf("no HelmOp has a Cluster for %s; check the filters", strings.Join(unmatched, ", "))
	}
	if s.IsUnhealthy(summaries, rows) {
		return kube.ErrUnhealthy
	}
	return nil
}

func (s *status) printTo(out io.Writer, summaries []fleetview.Summary, rows []fleetview.Row, write rowWriter) error {
	return s.output.Write(out, Status{HelmOps: nonNil(summaries), Rows: nonNil(rows)}, func(out io.Writer) error {
		return s.printText(out, summaries, rows, write)
	})
}

// printText prints the names of the releases, or the summaries and the table.
func (s *status) printText(out io.Writer, summaries []fleetview.Summary, rows []fleetview.Row, write rowWriter) error {
	if s.output.Format == "name" {
		for _, row := range rows {
			if row.Release != "" {
				_, _ = fmt.Fprintf(out, "helmoprelease.%s/%s\n", addonsv1.GroupVersion.Group, row.Release)
			}
		}
		return nil
	}
	if len(summaries) == 0 && len(rows) == 0 {
		s.Note("No HelmOps found.")
		return nil
	}
	now := s.Now()
	if !s.noHeaders {
		for i := range summaries {
			_, _ = fmt.Fprintln(out, summaries[i].Line(now, s.allNamespaces))
		}
		_, _ = fmt.Fprintln(out)
	}
	if len(rows) == 0 {
		s.Note("No Clusters found.")
		return nil
	}
	return write(rows, s.noFold, s.noHeaders)
}

// rowWriter prints rows. All calls use the same column widths.
type rowWriter func(rows []fleetview.Row, noFold, noHeaders bool) error

func (s *status) rowWriter() rowWriter {
	columns := kube.NewColumns(s.Streams.Out)
	return func(rows []fleetview.Row, noFold, noHeaders bool) error {
		return columns.Print(groupTable(fleetview.Fold(rows, noFold), s.Now(), s.allNamespaces, s.output.IsWide(),
			noHeaders))
	}
}

// groupTable returns groups as a table.
func groupTable(groups []fleetview.Group, now time.Time, namespaces, wide, noHeaders bool) *kube.Table {
	columns := []string{"HELMOP", "CLUSTER", "STATE", "VERSION", "HELM-REVISION", "SINCE", "+HELMOP-REVISION", "+WAVE",
		"+REASON", "MESSAGE"}
	if namespaces {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := kube.NewTable(wide, noHeaders, columns...)
	for i := range groups {
		g := &groups[i]
		cells := []string{g.HelmOp, g.ClustersOf(), string(g.State), g.Version, g.HelmRevision(), g.Since(now),
			kube.Number(g.HelmOpRevision), g.Wave, g.Reason, kube.Clip(g.Message, wide)}
		if namespaces {
			cells = append([]string{g.Namespace}, cells...)
		}
		t.Add(cells...)
	}
	return t
}

// nonNil converts nil to an empty list, which is "[]" in JSON instead of "null".
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
