// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
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
	return s.print(w, s.rowWriter())
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

func (s *status) print(w *world, write rowWriter) error {
	summaries, rows := s.view(w)
	if err := s.printTo(s.Streams.Out, summaries, rows, write); err != nil {
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

func (s *status) printTo(out io.Writer, summaries []Summary, rows []Row, write rowWriter) error {
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
	return write(rows, s.noFold, s.noHeaders)
}

// rowWriter prints rows. Later rows have columns of the same widths.
type rowWriter func(rows []Row, noFold, noHeaders bool) error

func (s *status) rowWriter() rowWriter {
	columns := printers.GetNewTabWriter(s.Streams.Out)
	return func(rows []Row, noFold, noHeaders bool) error {
		err := writeGroups(columns, fold(rows, noFold), s.Now(), s.allNamespaces, s.output == "wide", noHeaders)
		return errors.Join(err, columns.Flush())
	}
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
	write := s.rowWriter()
	if err := s.print(w, write); err != nil {
		return err
	}
	watcher := newStatusWatch(s, w, write)
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
			change.apply(&w.helmOps)
			err = watcher.update()
		case change := <-releases:
			change.apply(&w.releases)
			err = watcher.update()
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
	write rowWriter
	shown map[string]shownLine
}

// shownLine is a line about a HelmOp or, with a Cluster, about a row.
type shownLine struct {
	text string

	helmOp           client.ObjectKey
	cluster, release string
}

func newStatusWatch(s *status, w *world, write rowWriter) *statusWatch {
	v := &statusWatch{status: s, world: w, write: write}
	v.shown, _ = v.lines()
	return v
}

// lines returns what the table shows of the world by HelmOps and rows, and the identities in the order of the table.
func (v *statusWatch) lines() (lines map[string]shownLine, order []string) {
	lines = map[string]shownLine{}
	add := func(id string, line shownLine) { lines[id], order = line, append(order, id) }
	summaries, rows := v.view(v.world)
	for i := range summaries {
		key := client.ObjectKey{Namespace: summaries[i].Namespace, Name: summaries[i].Name}
		add("HelmOp "+key.String(), shownLine{text: summaries[i].timelessLine(v.allNamespaces), helmOp: key})
	}
	for i := range rows {
		row := &rows[i]
		add(row.key(), shownLine{text: visible(row), helmOp: client.ObjectKey{Namespace: row.Namespace, Name: row.HelmOp},
			cluster: row.Cluster, release: row.Release})
	}
	return lines, order
}

// visible is what a line shows of a row, but for the time.
func visible(r *Row) string {
	return strings.Join([]string{string(r.State), r.Version, number(r.HelmRevision), r.Message}, "\x00")
}

// update prints what changed.
func (v *statusWatch) update() error {
	before := v.shown
	lines, order := v.lines()
	v.shown = lines
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if text := v.gone(before[id], lines[id]); text != "" {
			_, _ = fmt.Fprintf(v.Streams.Out, "%s: %s\n", before[id].helmOp.Name, text)
		}
	}
	changed := map[string]bool{}
	for _, id := range order {
		line := lines[id]
		switch wasDeleted := before[id].release != "" && line.release == ""; {
		case line.text == before[id].text || wasDeleted:
		case line.cluster == "":
			_, _ = fmt.Fprintln(v.Streams.Out, line.text)
		default:
			changed[id] = true
		}
	}
	_, rows := v.view(v.world)
	rows = slices.DeleteFunc(rows, func(row Row) bool { return !changed[row.key()] })
	if len(rows) == 0 {
		return nil
	}
	return v.write(rows, true, true)
}

// gone returns what happened to a HelmOp or a release that was shown; empty if the table still shows it.
func (v *statusWatch) gone(before, now shownLine) string {
	_, hasHelmOp := v.world.helmOps[before.helmOp]
	_, hasRelease := v.world.releases[client.ObjectKey{Namespace: before.helmOp.Namespace, Name: before.release}]
	switch {
	case before.cluster == "" && !hasHelmOp:
		return "deleted"
	case before.release != "" && !hasRelease:
		return fmt.Sprintf("the release in Cluster %s was deleted", before.cluster)
	case now.text != "" || before.cluster != "" && before.release == "":
		return ""
	case before.cluster == "":
		return "no Cluster matches the filters any more"
	default:
		return fmt.Sprintf("Cluster %s no longer matches the filters", before.cluster)
	}
}
