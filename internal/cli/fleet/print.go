// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

const (
	// maxNamedClusters is how many Clusters of a group are named.
	maxNamedClusters = 3

	// maxMessage is how many characters of a message a table shows without -o wide.
	maxMessage = 100

	none = "<none>"
)

// escaped is a writer that writes escape sequences of terminals as text: messages are from workload clusters and
// registries. Waits for several HelmOps use it at the same time.
type escaped struct {
	mutex sync.Mutex
	to    io.Writer
}

// Write writes data.
func (e *escaped) Write(data []byte) (int, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if err := printers.WriteEscaped(e.to, string(data)); err != nil {
		return 0, err
	}
	return len(data), nil
}

// table is a table in the terms of kubectl: with -o wide, columns of priority 1 are printed, too.
type table struct {
	metav1.Table
	options printers.PrintOptions
}

// column names a column; a name that begins with "+" is for -o wide.
func newTable(wide, noHeaders bool, columns ...string) *table {
	t := &table{options: printers.PrintOptions{Wide: wide, NoHeaders: noHeaders}}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if strings.HasPrefix(name, "+") {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

func (t *table) add(cells ...string) {
	row := metav1.TableRow{}
	for _, cell := range cells {
		row.Cells = append(row.Cells, cell)
	}
	t.Rows = append(t.Rows, row)
}

func (t *table) write(out io.Writer) error {
	return printers.NewTablePrinter(t.options).PrintObj(&t.Table, out)
}

// age returns how long ago a time is.
func age(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at))
}

// clustersOf names the Clusters of a group.
func (g *Group) clustersOf() string {
	n := len(g.Clusters)
	switch {
	case n == 1:
		return g.Clusters[0]
	case n <= maxNamedClusters:
		return fmt.Sprintf("%d alike: %s", n, strings.Join(g.Clusters, ", "))
	default:
		return fmt.Sprintf("%d alike: %s, ...", n, strings.Join(g.Clusters[:maxNamedClusters], ", "))
	}
}

// since returns how long the state of a group lasts: the shortest and the longest time.
func (g *Group) since(now time.Time) string {
	return span(age(now, g.newest), age(now, g.oldest))
}

func (g *Group) helmRevision() string {
	if g.maxRevision == 0 {
		return ""
	}
	return span(fmt.Sprint(g.minRevision), fmt.Sprint(g.maxRevision))
}

func span(from, to string) string {
	if from == to {
		return from
	}
	return from + " to " + to
}

// clip shortens a message for a table.
func clip(message string, wide bool) string {
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); !wide && len(runes) > maxMessage {
		return strings.TrimRight(string(runes[:maxMessage]), " ,;:") + "..."
	}
	return message
}

// writeGroups prints groups as a table.
func writeGroups(out io.Writer, groups []Group, now time.Time, namespaces, wide, noHeaders bool) error {
	columns := []string{"HELMOP", "CLUSTER", "STATE", "VERSION", "HELM-REVISION", "SINCE", "+HELMOP-REVISION", "+WAVE",
		"+REASON", "MESSAGE"}
	if namespaces {
		columns = append([]string{"NAMESPACE"}, columns...)
	}
	t := newTable(wide, noHeaders, columns...)
	for i := range groups {
		g := &groups[i]
		cells := []string{g.HelmOp, g.clustersOf(), string(g.State), g.Version, g.helmRevision(), g.since(now),
			number(g.HelmOpRevision), g.Wave, g.Reason, clip(g.Message, wide)}
		if namespaces {
			cells = append([]string{g.Namespace}, cells...)
		}
		t.add(cells...)
	}
	return t.write(out)
}

// number formats a number; 0 is unknown.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// page writes a readable page: fields with aligned values, and sections.
type page struct{ strings.Builder }

const pageIndent = 18

// field writes a field unless its value is empty. Lines after the first are aligned with it.
func (p *page) field(name, value string) {
	if value == "" {
		return
	}
	value = strings.ReplaceAll(strings.TrimSpace(value), "\n", "\n"+strings.Repeat(" ", pageIndent))
	fmt.Fprintf(p, "%-*s%s\n", pageIndent, name+":", value)
}

// section writes a table under a title.
func (p *page) section(title string, t *table) error {
	fmt.Fprintf(p, "\n%s:\n", title)
	if len(t.Rows) == 0 {
		fmt.Fprintf(p, "  %s\n", none)
		return nil
	}
	var text strings.Builder
	if err := t.write(&text); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		p.WriteString("  " + strings.TrimRight(line, " \n") + "\n")
	}
	return nil
}

// list writes lines under a title.
func (p *page) list(title string, lines []string) {
	fmt.Fprintf(p, "\n%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(p, "  %s\n", strings.ReplaceAll(line, "\n", "\n  "))
	}
}
