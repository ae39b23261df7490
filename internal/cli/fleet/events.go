// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
)

// subject is the object that Events are about.
type subject struct{ namespace, kind, name string }

func (s subject) options() []client.ListOption {
	selector := fields.Set{"involvedObject.kind": s.kind, "involvedObject.name": s.name}
	return []client.ListOption{client.InNamespace(s.namespace),
		client.MatchingFieldsSelector{Selector: selector.AsSelector()}}
}

// event is an Event about an object of HelmOp.
type event struct{ *corev1.Event }

// lastSeen returns the time since the last occurrence of an Event, and the number of occurrences.
func (e event) lastSeen(now time.Time) string {
	seen := fleetview.Age(now, fleetview.EventTime(e.Event))
	if count := fleetview.EventCount(e.Event); count > 1 {
		seen += fmt.Sprintf(" (x%d)", count)
	}
	return seen
}

// eventsOf lists the Events about a subject, the oldest first.
func eventsOf(ctx context.Context, c *kube.Client, about subject) ([]event, error) {
	items, _, err := kube.ListAll[*corev1.Event](ctx, c, &corev1.EventList{}, about.options()...)
	if err != nil {
		return nil, err
	}
	return sorted(items), nil
}

// sorted returns the Events about objects of HelmOp, sorted by time.
func sorted(items []*corev1.Event) []event {
	var events []event
	for _, item := range fleetview.SortedEvents(items) {
		events = append(events, event{item})
	}
	return events
}

// events is the command "events".
type events struct {
	kube.Base
	cluster   string
	types     []string
	watch     bool
	noHeaders bool
	output    kube.Output
}

func newEvents(o kube.Options) *cobra.Command {
	e := &events{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "events HELMOP",
		Short: "List the Events of a HelmOp, of its releases and of its HelmOp revisions",
		Long:  `List the Events of a HelmOp, of its releases and of its HelmOp revisions in order of time, the newest last.`,
		Example: `  # What happened to calico and its releases?
  kubectl helmop events calico

  # Warnings about one Cluster
  kubectl helmop events calico --cluster prod-1 --types=Warning

  # For a script
  kubectl helmop events calico -o json

  # Print new Events as they happen
  kubectl helmop events calico -w`,
		Args:              kube.Args(1, 1),
		ValidArgsFunction: e.CompleteHelmOps(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return e.run(cmd.Context(), args[0]) },
	}
	e.Add(cmd)
	e.AddClusterFlag(cmd, &e.cluster, "List the Events of the release in this Cluster only.")
	cmd.Flags().StringSliceVar(&e.types, "types", nil, "List Events of these types only: Normal, Warning.")
	cmd.Flags().BoolVarP(&e.watch, "watch", "w", false, "After the list, print new Events.")
	_ = cmd.RegisterFlagCompletionFunc("types", cobra.FixedCompletions(eventTypes, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().BoolVar(&e.noHeaders, "no-headers", false, "Print no header.")
	e.output.Add(cmd, "a table", "json", "yaml")
	return cmd
}

var eventTypes = []string{corev1.EventTypeNormal, corev1.EventTypeWarning}

func (e *events) validate() error {
	for _, name := range e.types {
		if !slices.Contains(eventTypes, name) {
			return kube.Usagef("--types %q is unknown; use some of %s", name, strings.Join(eventTypes, ", "))
		}
	}
	if e.watch && e.output.IsData() {
		return kube.Usagef("--watch prints a table and cannot be used with -o %s", e.output.Format)
	}
	return e.output.Validate()
}

func (e *events) run(ctx context.Context, name string) error {
	if err := e.validate(); err != nil {
		return err
	}
	c, err := e.Connect()
	if err != nil {
		return err
	}
	helmOp, err := c.HelmOp(ctx, name)
	if err != nil {
		return err
	}
	isWanted, options, err := e.filter(ctx, c, helmOp)
	if err != nil {
		return err
	}
	columns := kube.NewColumns(e.Streams.Out)
	shown, header := map[string]int32{}, !e.noHeaders
	show := func(items []*corev1.Event) error {
		items = slices.DeleteFunc(items, func(item *corev1.Event) bool {
			return shown[string(item.UID)] == fleetview.EventCount(item) || !isWanted(item)
		})
		t := kube.NewTable(true, !header, "LAST-SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
		for _, event := range sorted(items) {
			shown[string(event.UID)] = fleetview.EventCount(event.Event)
			t.Add(event.lastSeen(e.Now()), event.Type, event.Reason,
				strings.ToLower(event.InvolvedObject.Kind)+"/"+event.InvolvedObject.Name, kube.Clip(event.Message, true))
		}
		if len(t.Rows) == 0 {
			return nil
		}
		header = false
		return columns.Print(t)
	}
	if !e.watch {
		items, _, err := kube.ListAll[*corev1.Event](ctx, c, &corev1.EventList{}, options...)
		if err != nil {
			return err
		}
		items = slices.DeleteFunc(items, func(item *corev1.Event) bool { return !isWanted(item) })
		return e.output.Write(e.Streams.Out, asData(items), func(io.Writer) error {
			if err := show(items); err != nil || len(shown) > 0 {
				return err
			}
			e.Note("No Events found. An API server keeps Events for an hour by default.")
			return nil
		})
	}
	err = kube.Follow(ctx, c, &corev1.EventList{}, func(change kube.Change[*corev1.Event]) (bool, error) {
		if change.Event == watch.Deleted {
			return false, nil
		}
		if !change.IsList {
			change.Items = []*corev1.Event{change.Object}
		}
		return false, show(change.Items)
	}, options...)
	if err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// asData returns Events in the form that kubectl prints, the oldest first.
func asData(items []*corev1.Event) []*corev1.Event {
	sorted := fleetview.SortedEvents(items)
	for _, item := range sorted {
		plain(item, corev1.SchemeGroupVersion.WithKind("Event"))
	}
	return nonNil(sorted)
}

// filter returns a function that selects the Events to show, and the options of the list.
func (e *events) filter(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) (
	isWanted func(*corev1.Event) bool, options []client.ListOption, err error,
) {
	isOfType := func(item *corev1.Event) bool { return len(e.types) == 0 || slices.Contains(e.types, item.Type) }
	if e.cluster != "" {
		release, err := c.Release(ctx, helmOp, e.cluster)
		if err != nil {
			return nil, nil, err
		}
		return isOfType, subject{release.Namespace, "HelmOpRelease", release.Name}.options(), nil
	}
	// Deleted releases and revisions have Events, too. Their names begin with the name of the HelmOp. The names of
	// another HelmOp's objects may begin the same way, so only such HelmOps are read.
	others, err := e.otherHelmOps(ctx, c, helmOp)
	isWanted = func(item *corev1.Event) bool {
		about := item.InvolvedObject
		if about.Kind == apiutil.HelmOpKind {
			return isOfType(item) && fleetview.IsOurs(item) && about.Name == helmOp.Name
		}
		return isOfType(item) && fleetview.IsOurs(item) && fleetview.BelongsTo(about.Name, helmOp.Name, others)
	}
	return isWanted, []client.ListOption{client.InNamespace(helmOp.Namespace)}, err
}

// otherHelmOps returns the names of the other HelmOps in the namespace.
func (e *events) otherHelmOps(ctx context.Context, c *kube.Client, helmOp *addonsv1.HelmOp) ([]string, error) {
	items, _, err := kube.ListAll[*addonsv1.HelmOp](ctx, c, &addonsv1.HelmOpList{}, client.InNamespace(helmOp.Namespace))
	var names []string
	for _, item := range items {
		if item.Name != helmOp.Name {
			names = append(names, item.Name)
		}
	}
	return names, err
}
