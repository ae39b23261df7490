// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// status is the command "status".
type status struct {
	base
	filter
	labelSelector string
	allNamespaces bool
	noFold        bool
	noHeaders     bool
	watch         bool
	exitCode      bool
	output        string

	// columns keeps the widths of the columns for the lines of --watch.
	columns flusher
}

// Status is what "status -o json" prints.
type Status struct {
	HelmOps []Summary `json:"helmOps"`
	Rows    []Row     `json:"clusters"`
}

func newStatus(o Options) *cobra.Command {
	s := &status{base: newBase(o)}
	cmd := &cobra.Command{
		Use:   "status [HELMOP...]",
		Short: "Show the state of HelmOps in their Clusters, unhealthy first",
		Long: `Show the state of HelmOps in their Clusters, unhealthy first.

The first lines summarize each HelmOp: the phase of its rollout, its progress, what it waits for, and the command for
that. The table has a row for each HelmOp and Cluster. Rows with the same state, version and message are put together;
--no-fold shows each of them.

States, the most urgent first: ` + stateNames() + `.
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

  # Print a line for each change
  kubectl helmop status -w`,
		Args:              names(0, -1),
		ValidArgsFunction: s.completeHelmOps(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.helmOps = args
			err := s.run(cmd.Context())
			if err != nil && s.exitCode && !errors.Is(err, ErrUnhealthy) {
				return &textError{err.Error(), errors.Join(ErrStatusFailed, err)}
			}
			return err
		},
	}
	s.add(cmd)
	flags := cmd.Flags()
	flags.BoolVarP(&s.allNamespaces, "all-namespaces", "A", false, "Show the HelmOps of all namespaces.")
	flags.StringSliceVar(&s.clusters, "cluster", nil,
		"Show these Clusters only: NAME, or NAMESPACE/NAME for a Cluster of another namespace.")
	// Not a string slice: that drops the empty name.
	flags.StringArrayVar(&s.waves, "wave", nil,
		`Show the Clusters of these waves of spec.rollout only; --wave="" is for the Clusters in no wave.`)
	flags.StringSliceVar(&s.states, "state", nil, "Show these states only.")
	flags.StringVarP(&s.labelSelector, "selector", "l", "", "Show Clusters with these labels only.")
	flags.BoolVar(&s.noFold, "no-fold", false, "Show a row for each Cluster, also if rows are alike.")
	flags.BoolVar(&s.noHeaders, "no-headers", false, "Print neither the header of the table nor the summaries.")
	flags.BoolVarP(&s.watch, "watch", "w", false, "After the table, print a line for each change.")
	flags.BoolVar(&s.exitCode, "exit-code", false,
		"Exit with 1 if something is unhealthy, and with a greater code for errors. "+
			"With filters, only the shown Clusters count.")
	flags.StringVarP(&s.output, "output", "o", "", "Output format: wide, json, yaml or name (default: a table).")
	_ = cmd.RegisterFlagCompletionFunc("cluster", s.completeClusters)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(strings.Split(stateNames(), ", "),
		cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"wide", "json", "yaml", "name"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func stateNames() string {
	var all []string
	for _, state := range states {
		all = append(all, string(state))
	}
	return strings.Join(all, ", ")
}

// validate checks the flags.
func (s *status) validate() (err error) {
	if s.selector, err = labels.Parse(s.labelSelector); err != nil {
		return usagef("--selector %q: %v", s.labelSelector, err)
	}
	if len(s.waves) > 0 {
		s.waves = strings.Split(strings.Join(s.waves, ","), ",")
	}
	for _, state := range s.states {
		if !slices.ContainsFunc(states, func(known State) bool { return strings.EqualFold(string(known), state) }) {
			return usagef("--state %q is unknown; use some of %s", state, stateNames())
		}
	}
	switch s.output {
	case "", "wide":
	case "json", "yaml", "name":
		if s.watch {
			return usagef("--watch prints lines of a table and cannot be used with -o %s", s.output)
		}
	default:
		return usagef("--output %q is unknown; use wide, json, yaml or name", s.output)
	}
	if s.watch && s.exitCode {
		return usagef("--watch and --exit-code cannot be used together")
	}
	return nil
}

func (s *status) run(ctx context.Context) error {
	if err := s.validate(); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	if s.allNamespaces {
		c.namespace = ""
	}
	if s.watch {
		return s.runWatch(ctx, c)
	}
	w, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	return s.print(w)
}

// read lists the HelmOps, releases and Clusters.
func (s *status) read(ctx context.Context, c *fleetClient) (*world, error) {
	w := &world{}
	in := client.InNamespace(c.namespace)
	helmOps, _, err := listAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, in)
	if err != nil {
		return nil, err
	}
	w.helmOps = byKey(helmOps)
	releases, _, err := listAll[*addonsv1.HelmOpRelease](ctx, c, &addonsv1.HelmOpReleaseList{}, in)
	if err != nil {
		return nil, err
	}
	w.releases = byKey(releases)
	if err := s.checkNames(w, c.namespace); err != nil {
		return nil, err
	}
	return w, s.readClusters(ctx, c, w)
}

// readClusters lists the Clusters: in all namespaces if a HelmOp selects Clusters of other namespaces and the user may
// list these.
func (s *status) readClusters(ctx context.Context, c *fleetClient, w *world) error {
	namespaces := []string{c.namespace}
	for _, helmOp := range w.helmOps {
		if helmOp.Spec.ClusterNamespaces != nil && c.namespace != "" {
			namespaces = []string{"", c.namespace}
		}
	}
	var err error
	for _, namespace := range namespaces {
		var clusters []*unstructured.Unstructured
		clusters, _, err = listAll[*unstructured.Unstructured](ctx, c, apiutil.NewClusterList(),
			client.InNamespace(namespace))
		if err == nil {
			w.clusters = byKey(clusters)
			return nil
		}
		if !apierrors.IsForbidden(err) {
			return err
		}
	}
	if len(s.waves) > 0 || !s.selector.Empty() {
		return err
	}
	s.note("warning: %v. Clusters without a release are not shown", err)
	return nil
}

// checkNames fails if a HelmOp that the arguments name does not exist.
func (s *status) checkNames(w *world, namespace string) error {
	for _, name := range s.helmOps {
		found := false
		for key := range w.helmOps {
			found = found || key.Name == name
		}
		if !found {
			return noHelmOp(namespace, name)
		}
	}
	return nil
}

// view returns the summaries and rows that the filter chooses. A summary is left out if none of its rows is chosen, but
// only with a filter for rows.
func (s *status) view(w *world) ([]Summary, []Row) {
	rows := slices.DeleteFunc(w.rows(), func(row Row) bool { return !s.matches(w, &row) })
	var summaries []Summary
	for _, helmOp := range w.helmOps {
		if len(s.helmOps) > 0 && !slices.Contains(s.helmOps, helmOp.Name) || s.filtersRows() &&
			!slices.ContainsFunc(rows, func(row Row) bool {
				return row.HelmOp == helmOp.Name && row.Namespace == helmOp.Namespace
			}) {
			continue
		}
		summaries = append(summaries, summaryOf(helmOp, s.program()))
	}
	slices.SortFunc(summaries, compareSummaries)
	return summaries, rows
}

// filtersRows is true if the command does not show all rows of a HelmOp.
func (s *status) filtersRows() bool {
	return len(s.clusters)+len(s.states)+len(s.waves) > 0 || s.labelSelector != ""
}

func compareSummaries(a, b Summary) int {
	rank := func(s *Summary) int {
		switch {
		case s.Unhealthy:
			return 0
		case s.Ready != "True":
			return 1
		default:
			return 2
		}
	}
	if d := rank(&a) - rank(&b); d != 0 {
		return d
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}

func (s *status) print(w *world) error {
	summaries, rows := s.view(w)
	if err := s.printTo(s.Streams.Out, summaries, rows); err != nil {
		return err
	}
	if s.exitCode && s.isUnhealthy(summaries, rows) {
		return ErrUnhealthy
	}
	return nil
}

// isUnhealthy is true if something that the command shows is unhealthy. With a filter for rows, only the rows count:
// the summary of a HelmOp is about all its Clusters.
func (s *status) isUnhealthy(summaries []Summary, rows []Row) bool {
	return slices.ContainsFunc(rows, func(row Row) bool { return row.State.isUnhealthy() }) ||
		!s.filtersRows() && slices.ContainsFunc(summaries, func(summary Summary) bool { return summary.Unhealthy })
}

func (s *status) printTo(out io.Writer, summaries []Summary, rows []Row) error {
	switch s.output {
	case "json", "yaml":
		return writeData(out, s.output, Status{HelmOps: nonNil(summaries), Rows: nonNil(rows)})
	case "name":
		for _, row := range rows {
			if row.Release != "" {
				_, _ = fmt.Fprintf(out, "helmoprelease.%s/%s\n", addonsv1.GroupVersion.Group, row.Release)
			}
		}
		return nil
	}
	if len(summaries) == 0 && len(rows) == 0 {
		s.note("No HelmOps found.")
		return nil
	}
	now := s.Now()
	if !s.noHeaders {
		for i := range summaries {
			_, _ = fmt.Fprintln(out, summaries[i].line(now, s.allNamespaces))
		}
		_, _ = fmt.Fprintln(out)
	}
	if len(rows) == 0 {
		s.note("No Clusters found.")
		return nil
	}
	return s.writeRows(out, rows, s.noFold, s.noHeaders)
}

// writeRows prints rows. Later rows have columns of the same widths.
func (s *status) writeRows(out io.Writer, rows []Row, noFold, noHeaders bool) error {
	if s.columns == nil {
		s.columns = printers.GetNewTabWriter(out)
	}
	err := writeGroups(s.columns, fold(rows, noFold), s.Now(), s.allNamespaces, s.output == "wide", noHeaders)
	return errors.Join(err, s.columns.Flush())
}

// nonNil makes an empty list "[]" and not "null" in JSON.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// writeData prints a value as JSON or YAML.
func writeData(out io.Writer, format string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(data), "\n"))
	return err
}

// runWatch prints the status, and then a line for each change of a HelmOp or a row.
func (s *status) runWatch(ctx context.Context, c *fleetClient) error {
	w, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	if err := s.print(w); err != nil {
		return err
	}
	watcher := newStatusWatch(s, w)
	in := client.InNamespace(c.namespace)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	helmOps, releases := make(chan change[*addonsv1.HelmOp]), make(chan change[*addonsv1.HelmOpRelease])
	go func() { cancel(followTo(ctx, c, &addonsv1.HelmOpList{}, helmOps, in)) }()
	go func() { cancel(followTo(ctx, c, &addonsv1.HelmOpReleaseList{}, releases, in)) }()
	for {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		case change := <-helmOps:
			err = watcher.onHelmOp(change)
		case change := <-releases:
			err = watcher.onRelease(change)
		}
		if err != nil {
			return err
		}
	}
}

// followTo sends each change to a channel until the context ends.
func followTo[T client.Object](ctx context.Context, c *fleetClient, list client.ObjectList, to chan<- change[T],
	opts ...client.ListOption,
) error {
	return follow(ctx, c, list, func(change change[T]) (bool, error) {
		select {
		case to <- change:
			return false, nil
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}, opts...)
}

// statusWatch prints a line where what the table shows changes.
type statusWatch struct {
	*status
	world *world
	shown map[string]string
}

func newStatusWatch(s *status, w *world) *statusWatch {
	v := &statusWatch{status: s, world: w, shown: map[string]string{}}
	summaries, rows := s.view(w)
	for i := range summaries {
		v.shown[helmOpID(summaries[i].Namespace, summaries[i].Name)] = summaries[i].timelessLine(v.allNamespaces)
	}
	for i := range rows {
		v.shown[rows[i].key()] = visible(&rows[i])
	}
	return v
}

func helmOpID(namespace, name string) string { return "HelmOp " + namespace + "/" + name }

// visible is what a line shows of a row, but for the time.
func visible(r *Row) string {
	return strings.Join([]string{string(r.State), r.Version, number(r.HelmRevision), r.Message}, "\x00")
}

func (v *statusWatch) onHelmOp(change change[*addonsv1.HelmOp]) error {
	if change.isList {
		v.world.helmOps = byKey(change.items)
	} else {
		change.items = []*addonsv1.HelmOp{change.object}
	}
	for _, helmOp := range change.items {
		key := client.ObjectKeyFromObject(helmOp)
		if len(v.helmOps) > 0 && !slices.Contains(v.helmOps, helmOp.Name) {
			continue
		}
		id := helmOpID(helmOp.Namespace, helmOp.Name)
		if change.event == watch.Deleted {
			delete(v.world.helmOps, key)
			delete(v.shown, id)
			_, _ = fmt.Fprintf(v.Streams.Out, "%s: deleted\n", helmOp.Name)
			continue
		}
		v.world.helmOps[key] = helmOp
		summary := summaryOf(helmOp, v.program())
		if line := summary.timelessLine(v.allNamespaces); v.shown[id] != line {
			v.shown[id] = line
			_, _ = fmt.Fprintln(v.Streams.Out, line)
		}
	}
	return nil
}

func (v *statusWatch) onRelease(change change[*addonsv1.HelmOpRelease]) error {
	before := v.world.releases
	if change.isList {
		v.world.releases = byKey(change.items)
		for key, release := range before {
			if v.world.releases[key] == nil {
				v.deleted(release)
			}
		}
	} else {
		change.items = []*addonsv1.HelmOpRelease{change.object}
	}
	var rows []Row
	for _, release := range change.items {
		key := client.ObjectKeyFromObject(release)
		if change.event == watch.Deleted {
			delete(v.world.releases, key)
			v.deleted(release)
			continue
		}
		v.world.releases[key] = release
		row := v.world.rowOf(release)
		if !v.matches(v.world, &row) || v.shown[row.key()] == visible(&row) {
			continue
		}
		v.shown[row.key()] = visible(&row)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, compareRows)
	return v.writeRows(v.Streams.Out, rows, true, true)
}

// deleted prints that a release does not exist any more.
func (v *statusWatch) deleted(release *addonsv1.HelmOpRelease) {
	row := v.world.rowOf(release)
	if _, ok := v.shown[row.key()]; !ok {
		return
	}
	delete(v.shown, row.key())
	_, _ = fmt.Fprintf(v.Streams.Out, "%s: the release in Cluster %s was deleted\n", row.HelmOp, row.Cluster)
}
