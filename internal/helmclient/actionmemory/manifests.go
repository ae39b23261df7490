// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"errors"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// freeParse is the memory, in bytes, up to which a parse is not counted. Nearly all manifests need less.
	freeParse = 4 << 20
	// keptByte and keptValue are the bytes of memory that stay after a parse for each byte and for each value: the text
	// as rendered files and as the manifest, and the objects.
	keptByte, keptValue = 3, 150
)

// manifests are the texts of an action. They are parsed one after the other.
type manifests struct {
	// rendered is the weight of the rendered chart. isSettled means that its objects are built.
	rendered  yamlweight.Weight
	isSettled bool
	// expected has the weights of manifests that are not parsed yet.
	expected map[string]yamlweight.Weight
	// weighed is the weight of a document that is being weighed.
	weighed yamlweight.Weight
}

// parsing returns the largest memory that the parse of one text needs, beyond what stays.
func (m *manifests) parsing() int64 {
	most := extraOf(m.weighed)
	if !m.isSettled {
		most = max(most, extraOf(m.rendered))
	}
	for _, weight := range m.expected {
		most = max(most, extraOf(weight))
	}
	return most
}

// costOf returns the memory for a parse, or 0 if it is not counted.
func costOf(weight yamlweight.Weight) int64 {
	if cost := weight.ParseCost(); cost > freeParse {
		return cost
	}
	return 0
}

// keptOf returns the memory that stays after a parse.
func keptOf(weight yamlweight.Weight) int64 {
	if costOf(weight) == 0 {
		return 0
	}
	return weight.Bytes*keptByte + int64(weight.Values)*keptValue
}

// extraOf returns the memory that a parse needs beyond what stays.
func extraOf(weight yamlweight.Weight) int64 { return costOf(weight) - keptOf(weight) }

// Render reserves memory for a rendered chart, for Helm to parse it and to build its objects. A later call replaces the
// former chart. A zero weight gives the memory back.
func (l *Lease) Render(weight yamlweight.Weight) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.manifests
	l.manifests.rendered, l.manifests.isSettled = weight, false
	err := l.change(rendered, keptOf(weight))
	if err != nil {
		l.manifests = before
	}
	return err
}

// change changes the bytes of one part, and those for the next parse.
func (l *Lease) change(which part, bytes int64) error {
	before := l.parts
	l.parts[parsing] = l.manifests.parsing()
	err := l.set(which, bytes)
	if err != nil {
		l.parts = before
	}
	return err
}

// RenderAgain reserves the memory of Render again, after Settle.
func (l *Lease) RenderAgain() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	weight := l.manifests.rendered
	l.mu.Unlock()
	return l.Render(weight)
}

// HasRendered reports whether the memory of Render is enough to parse a text of the rendered chart.
func (l *Lease) HasRendered(text string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.manifests.isSettled && int64(len(text)) <= l.manifests.rendered.Bytes
}

// Settle gives memory back that the action does not need while it applies objects and waits: for the parse of the
// rendered chart, and what await reserved beyond that.
func (l *Lease) Settle() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.manifests.isSettled, l.atLeast = true, 0
	// Less memory is always free.
	_ = l.change(rendered, l.parts[rendered])
}

// Expect reserves memory for the parse of manifests, until Built. It does nothing for manifests that are already
// expected. A nil Lease only checks the manifests. The error has the kind [helmerr.ErrInvalidChart] if a manifest
// exceeds a limit or must not be parsed.
func (l *Lease) Expect(texts ...string) error {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	for _, text := range texts {
		if err := l.expect(text); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lease) expect(text string) error {
	if l != nil {
		if _, ok := l.manifests.expected[text]; ok {
			return nil
		}
	}
	weight, err := l.weigh(text)
	if l == nil || err != nil {
		return err
	}
	if l.manifests.expected == nil {
		l.manifests.expected = map[string]yamlweight.Weight{}
	}
	l.manifests.expected[text] = weight
	err = l.change(objects, l.parts[objects]+keptOf(weight))
	if err != nil {
		delete(l.manifests.expected, text)
	}
	return err
}

// Weigh returns the weight of a manifest. It reserves memory while it weighs the text. The errors are those of Expect.
func (l *Lease) Weigh(text string) (yamlweight.Weight, error) {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	return l.weigh(text)
}

func (l *Lease) weigh(text string) (yamlweight.Weight, error) {
	weight, err := manifestweight.Measure(text, l.holdWeighing)
	if l != nil && l.manifests.weighed != (yamlweight.Weight{}) {
		l.manifests.weighed = yamlweight.Weight{}
		// Less memory is always free.
		_ = l.change(objects, l.parts[objects])
	}
	if own := (weighingError{}); errors.As(err, &own) {
		return weight, own.error
	}
	if err != nil {
		return weight, helmerr.New(helmerr.ErrInvalidChart, "%s", err)
	}
	return weight, nil
}

// weighingError is the error of a reservation for weighing.
type weighingError struct{ error }

// holdWeighing reserves memory to parse one document, in order to weigh it.
func (l *Lease) holdWeighing(weight yamlweight.Weight) error {
	if l == nil {
		return nil
	}
	l.manifests.weighed = weight
	if err := l.change(objects, l.parts[objects]); err != nil {
		return weighingError{err}
	}
	return nil
}

// Built gives memory for the parse of an expected manifest back, except for what its objects need.
func (l *Lease) Built(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.manifests.expected, text)
	// Less memory is always free.
	_ = l.change(objects, l.parts[objects])
}

// Temporary returns a function that gives the memory of all manifests back that were built after Temporary was called.
// Their objects must not be used afterwards.
func (l *Lease) Temporary() (end func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.parts[objects]
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		// Less memory is always free.
		_ = l.change(objects, min(l.parts[objects], before))
	}
}
