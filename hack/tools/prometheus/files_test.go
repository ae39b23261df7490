// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// root is the root of the repository.
var root = filepath.Join("..", "..", "..")

// promQL parses PromQL without experimental features.
var promQL = parser.NewParser(parser.Options{})

// readRules returns the rules of a PrometheusRule, checked as Prometheus checks a rule file.
func readRules(file string) ([]rulefmt.Rule, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec yaml.Node `yaml:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return nil, err
	}
	groups, err := yaml.Marshal(&object.Spec)
	if err != nil {
		return nil, err
	}
	parsed, errs := rulefmt.Parse(groups, false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %v", file, errs)
	}
	var rules []rulefmt.Rule
	for _, group := range parsed.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}

// panel is a panel of a dashboard.
type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	GridPos     struct {
		X, Y, W, H int
	} `json:"gridPos"`
	Targets []struct {
		Expr  string `json:"expr"`
		RefID string `json:"refId"`
	} `json:"targets"`
}

// dashboard is what the tests use of a dashboard of Grafana.
type dashboard struct {
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
}

func readDashboard(file string) (*dashboard, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &dashboard{}
	return d, json.Unmarshal(content, d)
}

// variables replaces the variables of Grafana by values.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$helmop", ".*")

// queries returns the queries of the panels and variables of the dashboard.
func (d *dashboard) queries() []string {
	var queries []string
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	for _, variable := range d.Templating.List {
		if query, ok := strings.CutPrefix(variable.Definition, "label_values("); ok {
			metric, label, _ := strings.Cut(strings.TrimSuffix(query, ")"), ", ")
			queries = append(queries, fmt.Sprintf("count by (%s) (%s)", label, variables.Replace(metric)))
		}
	}
	return queries
}

// selectors returns a line for each metric and each label that a query uses: the name of the metric, then the
// conditions on labels, then the labels of groupings. A condition that all values meet is written as the label alone.
func selectors(query string) ([]string, error) {
	expr, err := promQL.ParseExpr(query)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	var lines []string
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		used := grouping(path)
		for _, matcher := range selector.LabelMatchers {
			switch {
			case matcher.Name == labels.MetricName:
			case matcher.Type == labels.MatchRegexp && matcher.Value == ".*":
				used = append(used, matcher.Name)
			default:
				used = append(used, matcher.String())
			}
		}
		slices.Sort(used)
		lines = append(lines, strings.Join(append([]string{selector.Name}, slices.Compact(used)...), " "))
		return nil
	})
	return lines, nil
}

// grouping returns the labels by which the innermost aggregation around a selector groups. Outer aggregations can only
// use labels that the inner one keeps.
func grouping(path []parser.Node) []string {
	for _, node := range slices.Backward(path) {
		if aggregation, ok := node.(*parser.AggregateExpr); ok && !aggregation.Without {
			return slices.Clone(aggregation.Grouping)
		}
	}
	return nil
}
