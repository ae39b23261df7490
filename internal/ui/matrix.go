// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/apiutil"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// maxColumns is the largest number of HelmOps with their own column. If there are more HelmOps, those with equal
// columns share one.
const maxColumns = 6

// matrix shows the states of HelmOps in Clusters. It has a row for each Cluster, or for several equal Clusters. It has
// a column for each HelmOp, or for several equal HelmOps.
type matrix struct {
	Columns []column
	Lines   []line
	// Clusters is the number of Clusters in all lines.
	Clusters int
}

// column is a HelmOp, or several HelmOps with the same state in each line.
type column struct {
	HelmOps []client.ObjectKey
}

// line is a Cluster, or several Clusters with the same states, versions and messages.
type line struct {
	// ID identifies the line by its content.
	ID       string
	Clusters []client.ObjectKey
	// Cells are the states in the order of the columns. A cell is nil if the HelmOp has no row in the Clusters of the
	// line.
	Cells []*fleetview.Row
}

// newMatrix arranges rows as a matrix. If folded is false, each Cluster has its own line, and each HelmOp its own
// column.
func newMatrix(rows []fleetview.Row, folded bool) *matrix {
	m := &matrix{}
	positions := m.addColumns(rows)
	byCluster := map[client.ObjectKey]*line{}
	var clusters []*line
	for i := range rows {
		row := &rows[i]
		key := row.ClusterKey()
		l := byCluster[key]
		if l == nil {
			l = &line{Clusters: []client.ObjectKey{key}, Cells: make([]*fleetview.Row, len(m.Columns))}
			byCluster[key], clusters = l, append(clusters, l)
		}
		// A second release of a HelmOp in one Cluster is rare. The first one is the more urgent.
		if at := positions[helmOpKey(row)]; l.Cells[at] == nil {
			l.Cells[at] = row
		}
	}
	m.Clusters = len(clusters)
	m.Lines = foldLines(clusters, folded)
	slices.SortStableFunc(m.Lines, compareLines)
	if folded && len(m.Columns) > maxColumns {
		m.foldColumns()
	}
	return m
}

func helmOpKey(row *fleetview.Row) client.ObjectKey {
	return client.ObjectKey{Namespace: row.Namespace, Name: row.HelmOp}
}

// addColumns adds a column for each HelmOp, sorted by name, and returns their positions.
func (m *matrix) addColumns(rows []fleetview.Row) map[client.ObjectKey]int {
	positions := map[client.ObjectKey]int{}
	for i := range rows {
		positions[helmOpKey(&rows[i])] = 0
	}
	keys := make([]client.ObjectKey, 0, len(positions))
	for key := range positions {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareKeys)
	for i, key := range keys {
		positions[key] = i
		m.Columns = append(m.Columns, column{HelmOps: []client.ObjectKey{key}})
	}
	return positions
}

func compareKeys(a, b client.ObjectKey) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// foldLines gives each line its ID. If folded is true, it combines lines with the same content.
func foldLines(clusters []*line, folded bool) []line {
	var lines []line
	index := map[string]int{}
	for _, l := range clusters {
		var content strings.Builder
		for _, cell := range l.Cells {
			if cell != nil {
				content.WriteString(cell.Alike())
			}
			content.WriteString("\x01")
		}
		key := content.String()
		if at, ok := index[key]; ok && folded {
			lines[at].Clusters = append(lines[at].Clusters, l.Clusters...)
			continue
		}
		index[key] = len(lines)
		l.ID = apiutil.HexDigest(key)[:12]
		lines = append(lines, *l)
	}
	for i := range lines {
		slices.SortFunc(lines[i].Clusters, compareKeys)
	}
	return lines
}

// compareLines sorts lines: the most urgent line is first. If two lines are equally urgent, the line with fewer
// Clusters is first, because it is more unusual.
func compareLines(a, b line) int {
	return cmp.Or(
		cmp.Compare(a.urgency(), b.urgency()),
		cmp.Compare(len(a.Clusters), len(b.Clusters)),
		compareKeys(a.Clusters[0], b.Clusters[0]),
	)
}

// urgency returns the urgency of the most urgent cell.
func (l *line) urgency() int {
	least := len(fleetview.States)
	for _, cell := range l.Cells {
		if cell != nil {
			least = min(least, cell.State.Urgency())
		}
	}
	return least
}

// foldColumns combines columns that have the same state in all lines. A cell of a combined column has no release.
func (m *matrix) foldColumns() {
	var columns []column
	var first []int // the position of the first HelmOp of each column
	index := map[string]int{}
	for i := range m.Columns {
		var states strings.Builder
		for at := range m.Lines {
			if cell := m.Lines[at].Cells[i]; cell != nil {
				states.WriteString(string(cell.State))
			}
			states.WriteString(",")
		}
		if at, ok := index[states.String()]; ok {
			columns[at].HelmOps = append(columns[at].HelmOps, m.Columns[i].HelmOps...)
			continue
		}
		index[states.String()] = len(columns)
		columns, first = append(columns, m.Columns[i]), append(first, i)
	}
	for at := range m.Lines {
		cells := make([]*fleetview.Row, len(columns))
		for i := range columns {
			cell := m.Lines[at].Cells[first[i]]
			if cell != nil && len(columns[i].HelmOps) > 1 {
				cell = &fleetview.Row{State: cell.State}
			}
			cells[i] = cell
		}
		m.Lines[at].Cells = cells
	}
	m.Columns = columns
}
