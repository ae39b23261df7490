// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

const (
	// maxMessage is the largest number of characters of a message in a table without -o wide.
	maxMessage = 100

	// None is the text for an empty value in tables.
	None = "<none>"
)

// escaped is a writer that writes escape sequences of terminals as text, because messages come from workload clusters
// and registries. Waits for several HelmOps use it at the same time.
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

// Table is a table in the form of kubectl: -o wide also prints columns of priority 1.
type Table struct {
	metav1.Table
	options printers.PrintOptions
}

// NewTable returns a table with these columns. A column whose name begins with "+" is only printed with -o wide.
func NewTable(wide, noHeaders bool, columns ...string) *Table {
	t := &Table{options: printers.PrintOptions{Wide: wide, NoHeaders: noHeaders}}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: strings.TrimPrefix(name, "+"), Type: "string"}
		if strings.HasPrefix(name, "+") {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

// Add adds a row.
func (t *Table) Add(cells ...string) {
	row := metav1.TableRow{}
	for _, cell := range cells {
		row.Cells = append(row.Cells, cell)
	}
	t.Rows = append(t.Rows, row)
}

// Write prints the table.
func (t *Table) Write(out io.Writer) error {
	return printers.NewTablePrinter(t.options).PrintObj(&t.Table, out)
}

// Columns prints several tables with the same column widths. Each table is one write, so that a reader of the output
// never sees a part of a table.
type Columns struct {
	lines   bytes.Buffer
	columns interface {
		io.Writer
		Flush() error
	}
	out io.Writer
}

// NewColumns returns columns on an output.
func NewColumns(out io.Writer) *Columns {
	c := &Columns{out: out}
	c.columns = printers.GetNewTabWriter(&c.lines)
	return c
}

// Print prints a table.
func (c *Columns) Print(t *Table) error {
	if err := errors.Join(t.Write(c.columns), c.columns.Flush()); err != nil {
		return err
	}
	_, err := c.lines.WriteTo(c.out)
	return err
}

// Clip shortens a message for a table.
func Clip(message string, wide bool) string {
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); !wide && len(runes) > maxMessage {
		return strings.TrimRight(string(runes[:maxMessage]), " ,;:") + "..."
	}
	return message
}

// Number formats a number; 0 means unknown.
func Number(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// Page builds a page for people: fields with aligned values, and sections.
type Page struct{ strings.Builder }

const pageIndent = 18

// Field writes a field unless its value is empty. Lines after the first are aligned with it.
func (p *Page) Field(name, value string) {
	if value == "" {
		return
	}
	value = strings.ReplaceAll(strings.TrimSpace(value), "\n", "\n"+strings.Repeat(" ", pageIndent))
	fmt.Fprintf(p, "%-*s%s\n", pageIndent, name+":", value)
}

// Section writes a table under a title.
func (p *Page) Section(title string, t *Table) error {
	fmt.Fprintf(p, "\n%s:\n", title)
	if len(t.Rows) == 0 {
		fmt.Fprintf(p, "  %s\n", None)
		return nil
	}
	var text strings.Builder
	if err := t.Write(&text); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		p.WriteString("  " + strings.TrimRight(line, " \n") + "\n")
	}
	return nil
}

// List writes lines under a title.
func (p *Page) List(title string, lines []string) {
	fmt.Fprintf(p, "\n%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(p, "  %s\n", strings.ReplaceAll(line, "\n", "\n  "))
	}
}
