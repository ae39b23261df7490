// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Placeholders for strings in the output of valuesTemplate are a number between two private use characters. A template
// cannot contain these characters, and data enter the output only as placeholders. So data cannot forge a placeholder.
// A YAML parser accepts a placeholder as a part of any scalar.
const (
	placeholderOpen  = "\ue000"
	placeholderClose = "\ue001"
	placeholderMarks = placeholderOpen + placeholderClose
)

// run is one rendering.
type run struct {
	ctx  context.Context
	root map[string]any
	work int // the work that is left

	// These fields describe the template that is being executed:
	mode         mode
	typed        bool
	captured     any
	placeholders []string
	markups      map[markup]string
	constants    map[string]bool
}

// markup is YAML that a function wrote in yamlMode. Its text is the output of the function in other modes. run.markups
// maps it to the same text with placeholders for its strings. Two equal texts have the same meaning.
type markup string

// indented is text from data after indent or nindent, in yamlMode.
type indented string

func newRun(ctx context.Context, objects Objects, budget int) *run {
	return &run{ctx: ctx, root: objects.root(), work: budget}
}

// spend charges for work. An error ends the rendering.
func (r *run) spend(cost int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if cost > r.work {
		r.work = 0
		return faultf(ReasonLimitExceeded, "takes too much work to render")
	}
	r.work -= cost
	return nil
}

// step is called in each loop iteration with the number of nodes in the loop. It prints nothing.
func (r *run) step(nodes int) (string, error) { return "", r.spend(costStep + nodes*costParsed) }

// loop is called with what a loop goes through, before its first round, and returns it. A loop sorts all keys of a map,
// even if it ends in its first round.
func (r *run) loop(v any) (any, error) {
	cost, over := costStep, reflect.ValueOf(v)
	switch over.Kind() {
	case reflect.Map:
		cost += times(over.Len(), costNode)
	case reflect.String, reflect.Bool, reflect.Float64:
		return nil, faultf(ReasonRenderFailed, "range cannot loop over a %s", typeName(over))
	}
	return v, r.spend(cost)
}

// emit is called with each value before the value is printed.
func (r *run) emit(v any) (any, error) {
	if err := r.spend(costStep); err != nil {
		return nil, err
	}
	if v == nil {
		return nil, faultf(ReasonMissingKey, "yields no value; give one with default, or leave it out with if or with")
	}
	if r.typed {
		r.captured = v
		return "", nil
	}
	switch t := v.(type) {
	case markup:
		if text, ok := r.markups[t]; ok {
			return text, nil
		}
		// A part of markup is plain text.
	case indented:
		return r.placeholderLines(string(t)), nil
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.String:
		if r.mode == yamlMode {
			return r.placeholder(rv.String()), nil
		}
		return rv.String(), nil
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v, nil
	case reflect.Float32, reflect.Float64:
		return formatFloat(rv.Float())
	}
	if r.mode == yamlMode {
		return nil, faultf(ReasonRenderFailed, "prints a %s; write it as YAML with toYaml or toJson", typeName(rv))
	}
	return nil, faultf(ReasonRenderFailed, "prints a %s within a string; join it, or write it with toJson", typeName(rv))
}

// formatFloat formats a whole number without an exponent: 1000000, not 1e+06.
func formatFloat(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, faultf(ReasonRenderFailed, "yields a number that is not finite")
	}
	if f == math.Trunc(f) && math.Abs(f) <= maxExactFloat {
		return strconv.FormatInt(int64(f), 10), nil
	}
	return strconv.FormatFloat(f, 'g', -1, 64), nil
}

func (r *run) placeholder(s string) string {
	r.placeholders = append(r.placeholders, s)
	return placeholderOpen + strconv.Itoa(len(r.placeholders)-1) + placeholderClose
}

// placeholderLines replaces text by placeholders, but keeps line breaks and the common indentation. So indented data
// fit into a block scalar.
func (r *run) placeholderLines(s string) string {
	lines := strings.Split(s, "\n")
	common := math.MaxInt
	for _, l := range lines {
		if trimmed := strings.TrimLeft(l, " "); trimmed != "" {
			common = min(common, len(l)-len(trimmed))
		}
	}
	for i, l := range lines {
		if strings.TrimLeft(l, " ") == "" {
			lines[i] = ""
			continue
		}
		lines[i] = l[:common] + r.placeholder(l[common:])
	}
	return strings.Join(lines, "\n")
}

// expand replaces the placeholders in a scalar by the strings that they represent, and reports whether there were any.
// It stops when the result is longer than limit bytes: thousands of placeholders may represent the same large string.
func (r *run) expand(s string, limit int) (string, bool) {
	if !strings.Contains(s, placeholderOpen) {
		return s, false
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, placeholderOpen)
		b.WriteString(before)
		if !found || b.Len() > limit {
			return b.String(), true
		}
		number, after, _ := strings.Cut(rest, placeholderClose)
		if i, err := strconv.Atoi(number); err == nil && i >= 0 && i < len(r.placeholders) {
			b.WriteString(r.placeholders[i])
		}
		s = after
	}
}

// withPlaceholders copies v, in canonical form, and replaces its strings by placeholders.
func (r *run) withPlaceholders(v any) any {
	switch t := v.(type) {
	case string:
		return r.placeholder(t)
	case []any:
		out := make([]any, len(t))
		for i := range t {
			out[i] = r.withPlaceholders(t[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(t))
		for _, k := range sortedKeys(t) {
			out[r.placeholder(k)] = r.withPlaceholders(t[k])
		}
		return out
	}
	return v
}

// write returns markup of v. encode returns the text of a value.
func (r *run) write(v any, encode func(any) (string, error)) (any, error) {
	v, err := canonical(v)
	if err != nil {
		return nil, err
	}
	plain, err := encode(v)
	if err != nil || r.mode != yamlMode {
		return plain, err
	}
	if _, known := r.markups[markup(plain)]; !known {
		text, err := encode(r.withPlaceholders(v))
		if err != nil {
			return nil, err
		}
		r.markups[markup(plain)] = text
	}
	return markup(plain), nil
}

// layout applies a change of white space to text or markup.
func (r *run) layout(v any, change func(string) string) (any, error) {
	switch t := v.(type) {
	case markup:
		changed := markup(change(string(t)))
		if text, ok := r.markups[t]; ok {
			r.markups[changed] = change(text)
		}
		return changed, nil
	case string:
		if r.mode == yamlMode {
			return indented(change(t)), nil
		}
		return change(t), nil
	case indented:
		return indented(change(string(t))), nil
	case nil:
		return nil, faultf(ReasonMissingKey, "has no value to work on")
	}
	return nil, faultf(ReasonRenderFailed, "works on text, not on a %s", typeName(reflect.ValueOf(v)))
}

// limitedBuffer returns an error if a document becomes too large.
type limitedBuffer struct {
	strings.Builder
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxDocumentBytes {
		return 0, faultf(ReasonLimitExceeded, "yields more than %d bytes", maxDocumentBytes)
	}
	n, err := b.Builder.Write(p)
	if err != nil {
		return n, fmt.Errorf("buffer: %w", err)
	}
	return n, nil
}
