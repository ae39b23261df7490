// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

const (
	// linesPerPage is the number of lines of the matrix on a page.
	linesPerPage = 50

	// maxSummaries is the largest number of HelmOps that the overview describes.
	maxSummaries = 10

	// unhealthyFilter selects all unhealthy states.
	unhealthyFilter = "Unhealthy"
)

// overview is the data of the view of the whole fleet.
type overview struct {
	filters
	Bar       bar
	Tallies   []tally
	Summaries []fleetview.Summary
	// MoreHelmOps is the number of HelmOps that are not described.
	MoreHelmOps int
	Matrix      *matrix
	// Lines are the lines on the page.
	Lines []line
	// Open is the line whose Clusters are shown one by one; nil if lines are folded.
	Open  *line
	Pages pages
}

// filters are the filters of the command "status", from the query of a request.
type filters struct {
	query url.Values
	// HelmOp, Cluster, State, Wave and Selector are the values of the form.
	HelmOp, Cluster, State, Wave, Selector string
	// Problem is an error in the filters, for the user.
	Problem string
	filter  fleetview.Filter
}

// filtersOf reads the filters. A value may contain several names, separated by commas.
func filtersOf(query url.Values) filters {
	f := filters{query: query}
	read := func(name string, text *string, list *[]string) {
		*text = strings.Join(query[name], ",")
		if list == nil {
			return
		}
		for _, value := range strings.Split(*text, ",") {
			if value = strings.TrimSpace(value); value != "" {
				*list = append(*list, value)
			}
		}
	}
	read("helmop", &f.HelmOp, &f.filter.HelmOps)
	read("cluster", &f.Cluster, &f.filter.Clusters)
	read("state", &f.State, &f.filter.States)
	read("wave", &f.Wave, &f.filter.Waves)
	read("selector", &f.Selector, nil)
	var states []string
	for _, state := range f.filter.States {
		switch {
		case strings.EqualFold(state, unhealthyFilter):
			for _, known := range fleetview.States {
				if known.IsUnhealthy() {
					states = append(states, string(known))
				}
			}
		default:
			states = append(states, state)
		}
	}
	f.filter.States = states
	selector, err := labels.Parse(f.Selector)
	if err != nil {
		f.Problem = fmt.Sprintf("The label selector %q is not valid: %v", f.Selector, err)
		return f
	}
	f.filter.Selector = selector
	return f
}

// IsOn reports whether a filter is set.
func (f *filters) IsOn() bool {
	return f.HelmOp != "" || f.Cluster != "" || f.State != "" || f.Wave != "" || f.Selector != ""
}

// States returns the choices of the form.
func (f *filters) States() []string {
	states := []string{unhealthyFilter}
	for _, state := range fleetview.States {
		states = append(states, string(state))
	}
	return states
}

// With returns the query with another value for one parameter, and with the first page. An empty value removes the
// parameter.
func (f *filters) With(name, value string) string {
	query := url.Values{}
	for key, values := range f.query {
		if slices.Contains([]string{"helmop", "cluster", "state", "wave", "selector", "open", "page"}, key) {
			query[key] = values
		}
	}
	if name != "page" {
		query.Del("page")
	}
	query.Set(name, value)
	for key := range query {
		if strings.Join(query[key], "") == "" {
			query.Del(key)
		}
	}
	return "?" + query.Encode()
}

// pages divide lines into pages.
type pages struct {
	Number, Count int
	// First and Last are the numbers of the first and the last line on the page, from 1. Total is the number of all lines.
	First, Last, Total int
}

// Previous returns the number of the previous page.
func (p pages) Previous() string { return strconv.Itoa(p.Number - 1) }

// Next is the number of the next page.
func (p pages) Next() string { return strconv.Itoa(p.Number + 1) }

// pagesOf returns the page in a query, or the nearest page that exists.
func pagesOf(query string, total int) pages {
	p := pages{Count: max(1, (total+linesPerPage-1)/linesPerPage), Total: total}
	number, err := strconv.Atoi(query)
	if err != nil {
		number = 1
	}
	p.Number = min(max(number, 1), p.Count)
	p.First = min((p.Number-1)*linesPerPage+1, total)
	p.Last = min(p.Number*linesPerPage, total)
	return p
}

// fleetView shows HelmOps and Clusters as a matrix.
func (s *server) fleetView(r *http.Request, f *fleet) (content, error) {
	o := &overview{filters: filtersOf(r.URL.Query())}
	var rows []fleetview.Row
	if o.Problem == "" {
		rows = where(f.rows, func(row *fleetview.Row) bool { return o.filter.Matches(f.World, row) })
	}
	o.Tallies = talliesOf(rows)
	o.Bar = barOf(o.Tallies)
	o.Summaries = f.summaries
	if len(o.filter.HelmOps) > 0 {
		o.Summaries = slices.DeleteFunc(slices.Clone(o.Summaries), func(summary fleetview.Summary) bool {
			return !slices.Contains(o.filter.HelmOps, summary.Name)
		})
	}
	if o.MoreHelmOps = len(o.Summaries) - maxSummaries; o.MoreHelmOps > 0 {
		o.Summaries = o.Summaries[:maxSummaries]
	}
	o.arrange(rows)
	return content{Title: "Fleet", Template: "fleet", Data: o}, nil
}

// arrange creates the matrix and its page.
func (o *overview) arrange(rows []fleetview.Row) {
	o.Matrix = newMatrix(rows, true)
	if id := o.query.Get("open"); id != "" {
		o.Matrix = newMatrix(rows, false)
		o.Open = &line{ID: id}
		o.Matrix.Lines = slices.DeleteFunc(o.Matrix.Lines, func(l line) bool { return l.ID != id })
		for i := range o.Matrix.Lines {
			o.Open.Clusters = append(o.Open.Clusters, o.Matrix.Lines[i].Clusters...)
		}
	}
	o.Pages = pagesOf(o.query.Get("page"), len(o.Matrix.Lines))
	if len(o.Matrix.Lines) > 0 {
		o.Lines = o.Matrix.Lines[o.Pages.First-1 : o.Pages.Last]
	}
}

// versionsView shows which chart versions run in which Clusters.
func versionsView(_ *http.Request, f *fleet) (content, error) {
	counts := fleetview.CountVersions(f.HelmOps, slices.Collect(maps.Values(f.Releases)), nil)
	return content{Title: "Versions", Template: "versions", Data: counts}, nil
}
