// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"fmt"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/fleetview"
)

// part is a number of things that a bar shows.
type part struct {
	// Name is the name in the description of the bar.
	Name string
	// Class is the class of the style sheet that colours the part.
	Class string
	Count int
	// X and Width are the position and the width of the part, in percent of the bar.
	X, Width float64
}

// bar is a horizontal bar. The width of each part is proportional to its number.
type bar struct {
	// Label describes the bar in words.
	Label string
	Parts []part
}

// leastWidth is the width of the smallest part, in percent. One failed Cluster among a thousand must be visible.
const leastWidth = 0.8

// newBar returns a bar with the parts whose number is not 0.
func newBar(parts ...part) bar {
	var b bar
	total := 0
	for _, p := range parts {
		if p.Count > 0 {
			b.Parts, total = append(b.Parts, p), total+p.Count
		}
	}
	words, sum := make([]string, 0, len(b.Parts)), 0.0
	for i := range b.Parts {
		p := &b.Parts[i]
		words = append(words, fmt.Sprintf("%d %s", p.Count, p.Name))
		p.Width = max(leastWidth, float64(p.Count)/float64(total)*100)
		sum += p.Width
	}
	b.Label = strings.Join(words, ", ")
	x := 0.0
	for i := range b.Parts {
		p := &b.Parts[i]
		p.Width *= 100 / sum
		p.X, x = x, x+p.Width
	}
	return b
}

// classOf returns the class of a state in the style sheet.
func classOf(state fleetview.State) string { return "s-" + strings.ToLower(string(state)) }
