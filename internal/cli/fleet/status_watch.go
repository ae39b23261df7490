// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// runWatch prints the status first, and then a line for each change of a HelmOp or a row.
func (s *status) runWatch(ctx context.Context, c *kube.Client) error {
	w, access, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	write := s.rowWriter()
	if err := s.print(w, write); err != nil {
		return err
	}
	watcher := newStatusWatch(s, w, write)
	in := client.InNamespace(c.Namespace)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	helmOps, releases := make(chan kube.Change[*addonsv1.HelmOp]), make(chan kube.Change[*addonsv1.HelmOpRelease])
	clusters := make(chan kube.Change[*unstructured.Unstructured])
	go func() { cancel(followTo(ctx, c, &addonsv1.HelmOpList{}, helmOps, in)) }()
	go func() { cancel(followTo(ctx, c, &addonsv1.HelmOpReleaseList{}, releases, in)) }()
	if !access.isBlind {
		go func() {
			err := followTo(ctx, c, apiutil.NewClusterList(), clusters, client.InNamespace(access.namespace))
			if apierrors.IsForbidden(err) {
				s.Note("warning: %v. Changes of Clusters are not shown", err)
				return
			}
			cancel(err)
		}()
	}
	for {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		case change := <-helmOps:
			change.Apply(&w.HelmOps)
			err = watcher.update()
		case change := <-releases:
			change.Apply(&w.Releases)
			err = watcher.update()
		case change := <-clusters:
			change.Apply(&w.Clusters)
			err = watcher.update()
		}
		if err != nil {
			return err
		}
	}
}

// followTo sends each change to a channel until the context ends.
func followTo[T client.Object](ctx context.Context, c *kube.Client, list client.ObjectList, to chan<- kube.Change[T],
	opts ...client.ListOption,
) error {
	return kube.Follow(ctx, c, list, func(change kube.Change[T]) (bool, error) {
		select {
		case to <- change:
			return false, nil
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}, opts...)
}

// statusWatch prints a line for each change of the table.
type statusWatch struct {
	*status
	world *fleetview.World
	write rowWriter
	shown map[string]shownLine
}

// shownLine is a line about a HelmOp. If it has a Cluster, it is about a row.
type shownLine struct {
	text string

	helmOp           client.ObjectKey
	cluster, release string
}

func newStatusWatch(s *status, w *fleetview.World, write rowWriter) *statusWatch {
	v := &statusWatch{status: s, world: w, write: write}
	v.shown, _ = v.lines()
	return v
}

// lines returns the contents of the table by HelmOp and row, and the identities in the order of the table.
func (v *statusWatch) lines() (lines map[string]shownLine, order []string) {
	lines = map[string]shownLine{}
	add := func(id string, line shownLine) { lines[id], order = line, append(order, id) }
	summaries, rows := v.View(v.world, v.Invocation())
	for i := range summaries {
		key := client.ObjectKey{Namespace: summaries[i].Namespace, Name: summaries[i].Name}
		add("HelmOp "+key.String(), shownLine{text: summaries[i].TimelessLine(v.allNamespaces), helmOp: key})
	}
	for i := range rows {
		row := &rows[i]
		add(row.Key(), shownLine{text: visible(row), helmOp: client.ObjectKey{Namespace: row.Namespace, Name: row.HelmOp},
			cluster: row.Cluster, release: row.Release})
	}
	return lines, order
}

// visible returns the part of a row that a line shows, without the time.
func visible(r *fleetview.Row) string {
	return strings.Join([]string{string(r.State), r.Version, kube.Number(r.HelmRevision), r.Message}, "\x00")
}

// update prints the changes.
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
	_, rows := v.View(v.world, v.Invocation())
	rows = slices.DeleteFunc(rows, func(row fleetview.Row) bool { return !changed[row.Key()] })
	if len(rows) == 0 {
		return nil
	}
	return v.write(rows, true, true)
}

// gone returns what happened to a HelmOp or a release that the table no longer shows. The result is empty if the table
// still shows it.
func (v *statusWatch) gone(before, now shownLine) string {
	_, hasHelmOp := v.world.HelmOps[before.helmOp]
	_, hasRelease := v.world.Releases[client.ObjectKey{Namespace: before.helmOp.Namespace, Name: before.release}]
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
