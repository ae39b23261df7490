// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// MaxNamedClusters is the largest number of Clusters that a group names.
const MaxNamedClusters = 3

// Group is a row for one Cluster, or for several Clusters with equal rows.
type Group struct {
	Row

	// Clusters are the Clusters of the group.
	Clusters []string

	// the smallest and the largest values in the group
	oldest, newest           time.Time
	minRevision, maxRevision int64
}

// Fold combines rows with the same HelmOp, state, version and message. It ignores the names of the Cluster and of the
// HelmOpRelease in the message. The groups have the order of their first rows. If all is true, each row is its own
// group.
func Fold(rows []Row, all bool) []Group {
	var groups []Group
	index := map[string]int{}
	for _, row := range rows {
		key := row.Alike()
		at, ok := index[key]
		if !ok || all {
			index[key] = len(groups)
			groups = append(groups, Group{Row: row, Clusters: []string{row.Cluster}, oldest: row.Since.Time,
				newest: row.Since.Time, minRevision: row.HelmRevision, maxRevision: row.HelmRevision})
			continue
		}
		g := &groups[at]
		g.Message = row.General()
		g.Clusters = append(g.Clusters, row.Cluster)
		g.minRevision, g.maxRevision = min(g.minRevision, row.HelmRevision), max(g.maxRevision, row.HelmRevision)
		if row.Since.Time.Before(g.oldest) {
			g.oldest = row.Since.Time
		}
		if row.Since.After(g.newest) {
			g.newest = row.Since.Time
		}
	}
	return groups
}

// General returns the message without the names of the Cluster and of the HelmOpRelease.
func (r *Row) General() string {
	return WithoutNames(r.Message, r.Cluster, r.Release, 1)
}

// WithoutNames replaces the names of a Cluster and of its HelmOpRelease in a text. It keeps names of fewer than least
// characters. It also replaces the name of a Cluster with its namespace.
func WithoutNames(text, cluster, release string, least int) string {
	names := [][2]string{{release, "<release>"}, {cluster, "<cluster>"}}
	if _, name, ok := strings.Cut(cluster, "/"); ok {
		names = append(names, [2]string{name, "<cluster>"})
	}
	for _, name := range names {
		if len(name[0]) >= least {
			text = replaceName(text, name[0], name[1])
		}
	}
	return text
}

// replaceName replaces a name where it is not a part of a longer name.
func replaceName(text, name, placeholder string) string {
	if name == "" || !strings.Contains(text, name) {
		return text
	}
	// Two adjacent names may share one separator, so the second pass replaces what the first pass could not match.
	whole := regexp.MustCompile(`(^|[^A-Za-z0-9.-])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9-.]|\.($|\s))`)
	for range 2 {
		text = whole.ReplaceAllString(text, "${1}"+placeholder+"${2}")
	}
	return text
}

// ClustersOf returns the names of the Clusters of a group, for a table.
func (g *Group) ClustersOf() string {
	n := len(g.Clusters)
	switch {
	case n == 1:
		return g.Clusters[0]
	case n <= MaxNamedClusters:
		return fmt.Sprintf("%d alike: %s", n, strings.Join(g.Clusters, ", "))
	default:
		return fmt.Sprintf("%d alike: %s, ...", n, strings.Join(g.Clusters[:MaxNamedClusters], ", "))
	}
}

// Since returns how long a group has been in its state, as a range from the shortest to the longest time.
func (g *Group) Since(now time.Time) string {
	return span(Age(now, g.newest), Age(now, g.oldest))
}

// HelmRevision returns the smallest and the largest Helm revision of the group; empty if none is known.
func (g *Group) HelmRevision() string {
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
