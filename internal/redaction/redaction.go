// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// Mark replaces hidden text.
	Mark = "[redacted]"
	// Hidden replaces a whole text if the set of secrets is too large to search for.
	Hidden = Mark + ": the whole message is hidden, because the secrets are too large to search for"

	// maxSecretBytes is the largest total size of the secrets that are searched for.
	maxSecretBytes = 1 << 20
	// maxText is the largest text that is searched, in bytes. The rest is cut off.
	maxText = 64 << 10
	// minLength is the minimum length of secrets that are searched for within words.
	minLength = 4
	// longLength is the minimum length of secrets that are also found in parts. Such a secret is found by samples of
	// sampleLength characters, one at each sampleStep characters. So each part of 24 characters contains a sample.
	longLength, sampleLength, sampleStep = 24, 16, 8
	// middleLength and minLength are the numbers of leading characters by which secrets are looked up.
	middleLength = 8
)

// Set is a set of secrets. It is safe for concurrent use. A nil Set hides nothing.
type Set struct {
	secrets  []string
	words    bool
	tooLarge bool

	// once builds the index when the first text is searched: most actions succeed and need no index.
	once  sync.Once
	index index
}

// New returns a Set. If words is true, the Set includes secrets of less than four characters.
func New(secrets []string, words bool) *Set {
	if len(secrets) == 0 {
		return nil
	}
	size := 0
	for _, secret := range secrets {
		size += len(secret)
	}
	return &Set{secrets: secrets, words: words, tooLarge: size > maxSecretBytes}
}

// Hide returns a text without the secrets.
func (s *Set) Hide(text string) string {
	switch {
	case s == nil || text == "":
		return text
	case s.tooLarge:
		return Hidden
	}
	s.once.Do(s.build)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return replace(text, s.index.find(text))
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
}

type needles struct {
	short, middle map[string][]*needle
	long          map[string][]sample
}

func (n *needles) add(one needle) {
	if n.short == nil {
		*n = needles{map[string][]*needle{}, map[string][]*needle{}, map[string][]sample{}}
	}
	switch length := len(one.text); {
	case length >= longLength:
		for at := 0; at+sampleLength <= length; at += sampleStep {
			key := one.text[at : at+sampleLength]
			n.long[key] = append(n.long[key], sample{&one, at})
		}
	case length >= middleLength:
		n.middle[one.text[:middleLength]] = append(n.middle[one.text[:middleLength]], &one)
	default:
		n.short[one.text[:minLength]] = append(n.short[one.text[:minLength]], &one)
	}
}

// build builds the index.
func (s *Set) build() {
	for _, secret := range s.secrets {
		plain := string(bare(unitsOf(secret)).bytes())
		switch {
		case len(plain) >= minLength:
			s.index.add(secret, plain)
		case len(secret) >= minLength:
			s.index.exact = append(s.index.exact, secret)
		case s.words && secret != "":
			s.index.words = append(s.index.words, secret, base64.StdEncoding.EncodeToString([]byte(secret)),
				base64.RawStdEncoding.EncodeToString([]byte(secret)))
		}
	}
}

// add adds all forms of a secret.
func (x *index) add(secret, plain string) {
	x.plain.add(needle{text: plain})
	// The secret itself may look like an escaped text.
	if other := string(bare(unescape(unitsOf(secret))).bytes()); other != plain && len(other) >= minLength {
		x.plain.add(needle{text: other})
	}
	// The views for URLs keep "+", which means a space in a query.
	if strings.Contains(secret, " ") {
		if query := url.QueryEscape(secret); len(query) >= minLength {
			x.plain.add(needle{text: query})
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
			encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), form...))
			bits := 8 * (shift + len(form))
			one := needle{text: encoded[(8*shift+5)/6 : bits/6]}
			if shift > 0 {
				one.before = 1
			}
			if bits%6 > 0 {
				one.after = 1
			}
			if len(one.text) >= minLength {
				x.encoded.add(one)
			}
		}
	}
}

// span is a part of a text: the byte offsets of its start and its end, without the end.
type span struct{ from, to int }

// find returns the spans of all secrets.
func (x *index) find(text string) []span {
	plain := unitsOf(text)
	once := unescape(plain)
	var spans []span
	// The last view is for escapes that are split over lines.
	for _, view := range []units{plain, once, unescape(once), unescapeURL(plain), unescape(joined(plain))} {
		spans = append(spans, x.plain.find(bare(view), text)...)
	}
	spans = append(spans, x.encoded.find(standard(bare(once)), text)...)
	for _, exact := range x.exact {
		for at := 0; ; {
			i := strings.Index(text[at:], exact)
			if i < 0 {
				break
			}
			spans = append(spans, span{at + i, at + i + len(exact)})
			at += i + len(exact)
		}
	}
	for _, word := range x.words {
		spans = append(spans, findWord(text, word)...)
	}
	return spans
}

// find returns the spans of needles in a view of a text.
func (n *needles) find(view units, text string) []span {
	data := view.bytes()
	var spans []span
	for i := range data {
		if i+minLength <= len(data) {
			for _, one := range n.short[string(data[i:i+minLength])] {
				spans = one.appendTo(spans, view, data, i, text)
			}
		}
		if i+middleLength <= len(data) {
			for _, one := range n.middle[string(data[i:i+middleLength])] {
				spans = one.appendTo(spans, view, data, i, text)
			}
		}
		if i+sampleLength <= len(data) {
			for _, one := range n.long[string(data[i:i+sampleLength])] {
				spans = append(spans, one.around(view, data, i, text))
			}
		}
	}
	return spans
}

func (n *needle) appendTo(spans []span, view units, data []byte, at int, text string) []span {
	if end := at + len(n.text); end <= len(data) && string(data[at:end]) == n.text {
		return append(spans, n.widen(span{view[at].from, view[end-1].to}, text))
	}
	return spans
}

// around returns the span of all characters around a sample that match the needle.
func (s sample) around(view units, data []byte, at int, text string) span {
	from, to, first, last := at, at+sampleLength, s.at, s.at+sampleLength
	for from > 0 && first > 0 && data[from-1] == s.text[first-1] {
		from, first = from-1, first-1
	}
	for to < len(data) && last < len(s.text) && data[to] == s.text[last] {
		to, last = to+1, last+1
	}
	return s.widen(span{view[from].from, view[to-1].to}, text)
}

// widen extends a span by the adjacent base64 characters that also contain bits of the secret, and by the padding.
func (n *needle) widen(found span, text string) span {
	isEncoded := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/-_", c) >= 0
	}
	for i := 0; i < n.before && found.from > 0 && isEncoded(text[found.from-1]); i++ {
		found.from--
	}
	for i := 0; i < n.after && found.to < len(text) && isEncoded(text[found.to]); i++ {
		found.to++
	}
	for n.after > 0 && found.to < len(text) && text[found.to] == '=' {
		found.to++
	}
	return found
}

// findWord returns the spans where a word stands alone. A word next to letters or digits is a part of another word. A
// word without letters and digits must stand between quotes or white space.
func findWord(text, word string) []span {
	isPart := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	if !strings.ContainsFunc(word, isPart) {
		isPart = func(r rune) bool { return !unicode.IsSpace(r) && !strings.ContainsRune("\"'`", r) }
	}
	var spans []span
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return spans
		}
		from := at + i
		to := from + len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:from])
		after, _ := utf8.DecodeRuneInString(text[to:])
		if (from == 0 || !isPart(before)) && (to == len(text) || !isPart(after)) {
			spans = append(spans, span{from, to})
		}
		at = from + 1
	}
}

// replace replaces each span by Mark.
func replace(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
	var out strings.Builder
	end := 0
	for i, s := range spans {
		if i == 0 || s.from > end {
			out.WriteString(text[end:s.from])
			out.WriteString(Mark)
		}
		end = max(end, s.to)
	}
	out.WriteString(text[end:])
	return out.String()
}
