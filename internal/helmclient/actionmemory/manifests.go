// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package actionmemory

import (
	"crypto/sha256"
	"errors"
	"maps"

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

// texts are the rendered chart and the manifests of an action. They are parsed one after the other. What stays of a
// text is counted once, however often the text is parsed.
type texts struct {
	// rendered is the weight of the rendered chart. isSettled means that it is parsed, and its objects are built.
	rendered  yamlweight.Weight
	isSettled bool
	// known has the weights of the other large texts, by digest. pending has those that are not parsed yet.
	known, pending map[digest]yamlweight.Weight
	// weighed is the weight of a document that is being weighed.
	weighed yamlweight.Weight
}

type digest [sha256.Size]byte

func digestOf(text string) digest { return sha256.Sum256([]byte(text)) }

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

// size returns what stays of all texts, and the largest memory that the parse of one text needs beyond that.
func (t *texts) size() int64 {
	kept, most := keptOf(t.rendered), extraOf(t.weighed)
	if !t.isSettled {
		most = max(most, extraOf(t.rendered))
	}
	for _, weight := range t.known {
		kept += keptOf(weight)
	}
	for _, weight := range t.pending {
		most = max(most, extraOf(weight))
	}
	return kept + most
}

// Render reserves memory for a rendered chart, for Helm to parse it and to build its objects. A later call replaces the
// former chart. A zero weight gives the memory back.
func (l *Lease) Render(weight yamlweight.Weight) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.texts
	l.texts.rendered, l.texts.isSettled = weight, false
	err := l.update()
	if err != nil {
		l.texts = before
	}
	return err
}

// RenderAgain reserves the memory of Render again, after Settle.
func (l *Lease) RenderAgain() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	weight := l.texts.rendered
	l.mu.Unlock()
	return l.Render(weight)
}

// Parsed notes that the rendered chart is parsed. What stays is still reserved.
func (l *Lease) Parsed() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts.isSettled = true
	l.shrink()
}

// Settle gives memory back that the action does not need while it applies objects and waits: for the parse of the
// rendered chart, and what the action waited for beyond that.
func (l *Lease) Settle() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts.isSettled, l.atLeast = true, 0
	l.shrink()
}

// Expect reserves memory for manifests that will be parsed: for their parse until Parse ends, and for what stays until
// the action ends. It does nothing for manifests that are already expected. A nil Lease only checks the manifests. The
// error has the kind [helmerr.ErrInvalidChart] if a manifest exceeds a limit or must not be parsed.
func (l *Lease) Expect(manifests ...string) error {
	for _, text := range manifests {
		if err := l.expect(text, true); err != nil {
			return err
		}
	}
	return nil
}

// Parse reserves memory to parse a manifest, see [Lease.Expect]. Call end when it is parsed. isRendered means that the
// text may be a part of the rendered chart: what stays of such a part is already reserved.
func (l *Lease) Parse(manifest string, isRendered bool) (end func(), err error) {
	stays := true
	if l != nil && isRendered {
		l.mu.Lock()
		isCovered := int64(len(manifest)) <= l.texts.rendered.Bytes
		stays = !isCovered
		isParsed := l.texts.isSettled
		l.mu.Unlock()
		if isCovered && !isParsed {
			return func() {}, nil
		}
	}
	if err := l.expect(manifest, stays); err != nil {
		return nil, err
	}
	return func() { l.parsed(manifest) }, nil
}

func (l *Lease) expect(text string, stays bool) error {
	if l == nil {
		_, err := l.weigh(text)
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := digestOf(text)
	weight, isKnown := l.texts.known[id]
	if !isKnown {
		var err error
		if weight, err = l.weigh(text); err != nil || costOf(weight) == 0 {
			return err
		}
	}
	before := l.texts
	l.texts.pending = with(l.texts.pending, id, weight)
	if stays {
		l.texts.known = with(l.texts.known, id, weight)
	}
	err := l.update()
	if err != nil {
		l.texts = before
	}
	return err
}

// with returns a copy of a map with one more entry.
func with(weights map[digest]yamlweight.Weight, id digest, weight yamlweight.Weight) map[digest]yamlweight.Weight {
	changed := maps.Clone(weights)
	if changed == nil {
		changed = map[digest]yamlweight.Weight{}
	}
	changed[id] = weight
	return changed
}

func (l *Lease) parsed(text string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.texts.pending) == 0 {
		return
	}
	l.texts.pending = maps.Clone(l.texts.pending)
	delete(l.texts.pending, digestOf(text))
	l.shrink()
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
	if l != nil && l.texts.weighed != (yamlweight.Weight{}) {
		l.texts.weighed = yamlweight.Weight{}
		l.shrink()
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
	l.texts.weighed = weight
	if err := l.update(); err != nil {
		return weighingError{err}
	}
	return nil
}

// Temporary returns a function that gives the memory of all manifests back that were first expected after Temporary was
// called. Their objects must not be used afterwards.
func (l *Lease) Temporary() (end func()) {
	if l == nil {
		return func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, pending := l.texts.known, l.texts.pending
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.texts.known, l.texts.pending = known, pending
		l.shrink()
	}
}
