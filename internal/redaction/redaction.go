// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import (
	"encoding/base64"
	"encoding/json"
	"math/bits"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
	"weak"
)

const (
	// Mark replaces hidden text.
	Mark = "[redacted]"
	// Hidden replaces a whole text if a search for the secrets would take too much time or memory.
	Hidden = Mark + ": the whole message is hidden, because a search for the secrets would take too long"

	// maxSecretBytes is the largest total size of the secrets that are searched for.
	maxSecretBytes = 1 << 20
	// maxFormBytes is the largest total size of the forms of the secrets, for example in base64.
	maxFormBytes = 16 << 20
	// maxEntries is the largest number of entries of an index. An entry takes up to 200 bytes.
	maxEntries = 200_000
	// largeScale is the factor of these limits for a large Set. Its index takes at most about 600 MiB.
	largeScale = 16
	// maxKeptBytes is the largest total size of the secrets of a Set that keeps its index. Such an index takes at most
	// about 3 MiB.
	maxKeptBytes = 16 << 10
	// maxSteps is the largest number of steps of a search. A step takes some nanoseconds. A search needs more steps only
	// if thousands of long secrets have the same characters, which the text also repeats thousands of times.
	maxSteps = 16 << 20
	// scanned is the number of bytes in which one step finds the first character of a word.
	scanned = 16
	// maxText is the largest text that is searched, in bytes. The rest is cut off.
	maxText = 64 << 10
	// minLength is the minimum length of secrets that are searched for within words.
	minLength = 4
	// longLength is the minimum length of secrets that are also found in parts. Such a secret is found by samples of
	// sampleLength characters, one at each sampleStep characters. So each part of 24 characters contains a sample.
	longLength, sampleLength, sampleStep = 24, 16, 8
)

// Set is a set of secrets. It is safe for concurrent use. A nil Set hides nothing.
type Set struct {
	secrets []string
	words   bool
	// size is the total size of the secrets in bytes.
	size int
	// scale is the factor of the limits.
	scale int

	// kept returns the index of a Set that keeps it. It builds the index when the first text is searched: most actions
	// succeed and need no index.
	kept func() *index
	// last is the last index of a Set that does not keep it, until the next collection of garbage. The lock large guards
	// it.
	last weak.Pointer[index]
}

// large is held while an index that no Set keeps is built and used. So only one is in use, and the others are garbage:
// many actions may fail at the same time.
var large sync.Mutex

// New returns a Set. If words is true, the Set includes secrets of less than four characters.
func New(secrets []string, words bool) *Set {
	if len(secrets) == 0 {
		return nil
	}
	s := &Set{secrets: secrets, words: words, scale: 1}
	for _, secret := range secrets {
		s.size += len(secret)
	}
	s.kept = sync.OnceValue(s.build)
	return s
}

// NewLarge returns a Set like New, with higher limits. It keeps its index, whatever its size: it is for programs that
// run once, with few Sets.
func NewLarge(secrets []string, words bool) *Set {
	s := New(secrets, words)
	if s != nil {
		s.scale = largeScale
	}
	return s
}

// Hide returns a text without the secrets of all sets. It searches for each secret in the unchanged text: a secret of
// one Set may be a part of a secret of another Set.
func Hide(text string, sets ...*Set) string {
	if text == "" || len(sets) == 0 {
		return text
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	found := search{text: text, ends: make([]int32, len(text))}
	for _, set := range sets {
		if !set.find(&found) {
			return Hidden
		}
	}
	return found.replaced()
}

// find finds the spans of all secrets. It returns false if the search takes too much time or memory.
func (s *Set) find(in *search) bool {
	switch {
	case s == nil:
		return true
	case s.size > maxSecretBytes*s.scale:
		return false
	case s.size > maxKeptBytes && s.scale == 1:
		large.Lock()
		defer large.Unlock()
		return s.largeIndex().find(in)
	}
	return s.kept().find(in)
}

// largeIndex returns the index of a large Set. The caller holds large.
func (s *Set) largeIndex() *index {
	x := s.last.Value()
	if x == nil {
		x = s.build()
		s.last = weak.Make(x)
	}
	return x
}

// needle is one form of a secret, as it occurs in a view.
type needle struct {
	text string
	// before and after are the numbers of adjacent base64 characters that also contain bits of the secret.
	before, after int
}

// sample is a part of a needle.
type sample struct {
	*needle
	at int
}

// index finds needles by their first characters, and long needles by their samples.
type index struct {
	plain, encoded needles
	// words and exact are searched for in the unchanged text. words are found only where they stand alone.
	words, exact []string
	// size is the size of the needles in bytes. entries is the number of short needles, samples, words and exact.
	size, entries int
	// scale is the factor of the limits.
	scale int
}

func (x *index) isTooLarge() bool {
	return x.size > maxFormBytes*x.scale || x.entries > maxEntries*x.scale
}

type needles struct {
	// lengths holds the lengths of the short needles by their first minLength characters: one bit for each length.
	lengths map[string]uint32
	short   map[string]*needle
	long    map[string][]sample
}

func (n *needles) add(one needle) {
	if n.short == nil {
		*n = needles{map[string]uint32{}, map[string]*needle{}, map[string][]sample{}}
	}
	length := len(one.text)
	if length >= longLength {
		for at := 0; at+sampleLength <= length; at += sampleStep {
			key := one.text[at : at+sampleLength]
			n.long[key] = append(n.long[key], sample{&one, at})
		}
		return
	}
	n.lengths[one.text[:minLength]] |= 1 << length
	if same := n.short[one.text]; same != nil {
		same.before, same.after = max(same.before, one.before), max(same.after, one.after)
		return
	}
	n.short[one.text] = &one
}

// build returns the index of the secrets. If the index is too large, it is empty except for its size.
func (s *Set) build() *index {
	x := &index{scale: s.scale}
	for _, secret := range s.secrets {
		plain := bareText(secret)
		switch {
		case len(plain) >= minLength:
			x.add(secret, plain)
		case len(secret) >= minLength:
			x.exact = append(x.exact, secret)
			x.entries++
		case s.words && secret != "":
			x.words = append(x.words, secret, base64.StdEncoding.EncodeToString([]byte(secret)),
				base64.RawStdEncoding.EncodeToString([]byte(secret)))
			x.entries += 3
		}
		if x.isTooLarge() {
			return &index{size: x.size, entries: x.entries, scale: x.scale}
		}
	}
	return x
}

// add adds all forms of a secret.
func (x *index) add(secret, plain string) {
	add := func(to *needles, one needle) {
		x.size += len(one.text)
		x.entries++
		if len(one.text) >= longLength {
			x.entries += (len(one.text) - sampleLength) / sampleStep
		}
		if !x.isTooLarge() {
			to.add(one)
		}
	}
	add(&x.plain, needle{text: plain})
	// The secret itself may look like an escaped text.
	if strings.Contains(secret, `\`) {
		other := string(bare(unescape(unitsOf(secret))).bytes())
		if other != plain && len(other) >= minLength {
			add(&x.plain, needle{text: other})
		}
	}
	// The views for URLs keep "+", which means a space in a query.
	if strings.Contains(secret, " ") {
		if query := url.QueryEscape(secret); len(query) >= minLength {
			add(&x.plain, needle{text: query})
		}
	}
	quoted := strconv.Quote(secret)
	forms := []string{secret, quoted[1 : len(quoted)-1]}
	if data, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(data[1:len(data)-1]))
	}
	slices.Sort(forms)
	for _, form := range slices.Compact(forms) {
		for shift := range 3 {
			if x.isTooLarge() {
				return
			}
			encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), form...))
			length := 8 * (shift + len(form)) // in bits
			one := needle{text: encoded[(8*shift+5)/6 : length/6]}
			if shift > 0 {
				one.before = 1
			}
			if length%6 > 0 {
				one.after = 1
			}
			if len(one.text) >= minLength {
				add(&x.encoded, one)
			}
		}
	}
}

// span is a part of a text: the byte offsets of its start and its end, without the end.
type span struct{ from, to int }

// search is the search for secrets in a text.
type search struct {
	text string
	// ends holds the greatest end of the spans that start at each byte; zero if none starts there.
	ends []int32
	// steps is the number of steps that the search for the secrets of the present Set may still take.
	steps int
}

func (s *search) add(found span) { s.ends[found.from] = max(s.ends[found.from], int32(found.to)) }

// find finds the spans of all secrets. It returns false if the index is too large, or if the search takes too many
// steps.
func (x *index) find(in *search) bool {
	if x.isTooLarge() {
		return false
	}
	in.steps = maxSteps
	plain := unitsOf(in.text)
	once := unescape(plain)
	// The last view is for escapes that are split over lines. For most texts, all views are the same.
	var searched []units
	for _, view := range []units{plain, once, unescape(once), unescapeURL(plain), unescape(joined(plain))} {
		view = bare(view)
		if !slices.ContainsFunc(searched, func(other units) bool { return slices.Equal(other, view) }) {
			x.plain.find(view, in)
			searched = append(searched, view)
		}
	}
	x.encoded.find(standard(bare(once)), in)
	for _, exact := range x.exact {
		end := 0
		in.findAll(exact, func(found span) bool {
			isNext := found.from >= end
			if isNext {
				end = found.to
			}
			return isNext
		})
	}
	for _, word := range x.words {
		in.findAll(word, standsAlone(in.text, word))
	}
	return in.steps >= 0
}

// find finds the spans of needles in a view of a text.
func (n *needles) find(view units, in *search) {
	data := view.bytes()
	for i := range data {
		if i+minLength <= len(data) {
			for lengths := n.lengths[string(data[i:i+minLength])]; lengths != 0; lengths &= lengths - 1 {
				end := i + bits.TrailingZeros32(lengths)
				if end > len(data) {
					break
				}
				if one := n.short[string(data[i:end])]; one != nil {
					in.add(one.widen(span{view[i].from, view[end-1].to}, in))
				}
			}
		}
		if i+sampleLength <= len(data) {
			for _, one := range n.long[string(data[i:i+sampleLength])] {
				if in.steps--; in.steps < 0 {
					return
				}
				if !one.isRepeated(data, i) {
					in.add(one.around(view, data, i, in))
				}
			}
		}
	}
}

// isRepeated reports whether the needle's previous sample is also found, before this sample. Then both have the same
// characters around them.
func (s sample) isRepeated(data []byte, at int) bool {
	return s.at >= sampleStep && at >= sampleStep && string(data[at-sampleStep:at]) == s.text[s.at-sampleStep:s.at]
}

// around returns the span of all characters around a sample that match the needle.
func (s sample) around(view units, data []byte, at int, in *search) span {
	from, to, first, last := at, at+sampleLength, s.at, s.at+sampleLength
	for from > 0 && first > 0 && data[from-1] == s.text[first-1] {
		from, first = from-1, first-1
	}
	for to < len(data) && last < len(s.text) && data[to] == s.text[last] {
		to, last = to+1, last+1
	}
	in.steps -= to - from
	return s.widen(span{view[from].from, view[to-1].to}, in)
}

// widen extends a span by the adjacent base64 characters that also contain bits of the secret, and by the padding.
func (n *needle) widen(found span, in *search) span {
	isEncoded := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_", c) >= 0
	}
	for i := 0; i < n.before && found.from > 0 && isEncoded(in.text[found.from-1]); i++ {
		found.from--
	}
	for i := 0; i < n.after && found.to < len(in.text) && isEncoded(in.text[found.to]); i++ {
		found.to++
	}
	for n.after > 0 && found.to < len(in.text) && in.text[found.to] == '=' {
		found.to++
		in.steps--
	}
	return found
}

// findAll finds the spans of a word that a function accepts.
func (s *search) findAll(word string, accepts func(span) bool) {
	s.steps -= len(s.text) / scanned
	for at := 0; s.steps >= 0; s.steps-- {
		i := strings.Index(s.text[at:], word)
		if i < 0 {
			return
		}
		found := span{at + i, at + i + len(word)}
		if accepts(found) {
			s.add(found)
		}
		at = found.from + 1
	}
}

// standsAlone returns a function that reports whether a word stands alone. A word next to letters or digits is a part
// of another word. A word without letters and digits must stand between quotes or white space.
func standsAlone(text, word string) func(span) bool {
	isPart := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if !strings.ContainsFunc(word, isPart) {
		isPart = func(r rune) bool { return !unicode.IsSpace(r) && !strings.ContainsRune("\"'`", r) }
	}
	return func(found span) bool {
		before, _ := utf8.DecodeLastRuneInString(text[:found.from])
		after, _ := utf8.DecodeRuneInString(text[found.to:])
		return (found.from == 0 || !isPart(before)) && (found.to == len(text) || !isPart(after))
	}
}

// replaced returns the text with Mark in place of the spans.
func (s *search) replaced() string {
	var out strings.Builder
	end := 0
	for from, to := range s.ends {
		if to == 0 {
			continue
		}
		if from > end || end == 0 {
			out.WriteString(s.text[end:from])
			out.WriteString(Mark)
		}
		end = max(end, int(to))
	}
	out.WriteString(s.text[end:])
	return out.String()
}
