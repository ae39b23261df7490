// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
)

// DiffMasker hides secrets in two versions of an object. It replaces each secret with a digest that depends on the key
// of the DiffMasker. So a change of a secret is visible, but the secret is not.
type DiffMasker struct {
	*Masker
	key []byte
}

// NewDiffMasker returns a DiffMasker. values are the values of the release. secretValues are the values among them that
// came from Secrets. previous are the values of previous Helm revisions, because the objects of these revisions contain
// the previous secrets. The DiffMasker hides two kinds of previous values: those at the paths of the current secrets,
// and those with keys such as "password".
func NewDiffMasker(key []byte, values map[string]any, secretValues []any, previous ...map[string]any) *DiffMasker {
	secrets, present := map[string]bool{}, map[string]bool{}
	redaction.Texts(secretValues, secrets)
	redaction.Texts(values, present)
	all := slices.Clone(secretValues)
	for _, before := range previous {
		all = appendFormer(all, values, before, secrets)
		all = appendNamed(all, before, func(text string) bool { return secrets[text] || !present[text] })
	}
	return &DiffMasker{Masker: &Masker{hide: helmerr.NewRedactor(nil, all).Hide}, key: key}
}

// secretKey matches the keys of values that are always secret.
var secretKey = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|api-?key|private-?key|credentials?)$`)

// minNamed is the shortest previous value with a secret key that is hidden. Shorter texts are usually words or numbers.
const minNamed = 6

// appendNamed appends the previous texts with secret keys. It skips texts that the current values contain as a normal
// value.
func appendNamed(former []any, previous any, isHidden func(string) bool) []any {
	switch typed := previous.(type) {
	case map[string]any:
		for key, inner := range typed {
			if text, ok := inner.(string); ok && len(text) >= minNamed && secretKey.MatchString(key) && isHidden(text) {
				former = append(former, text)
				continue
			}
			former = appendNamed(former, inner, isHidden)
		}
	case []any:
		for _, inner := range typed {
			former = appendNamed(former, inner, isHidden)
		}
	}
	return former
}

// appendFormer appends the previous values at the paths of secrets.
func appendFormer(former []any, value, previous any, secrets map[string]bool) []any {
	switch typed := value.(type) {
	case map[string]any:
		before, _ := previous.(map[string]any)
		for key, inner := range typed {
			former = appendFormer(former, inner, before[key], secrets)
		}
	case []any:
		before, _ := previous.([]any)
		for i, inner := range typed {
			former = appendFormer(former, inner, at(before, i), secrets)
		}
	case nil, bool:
	default:
		if secrets[fmt.Sprint(typed)] && previous != nil {
			former = append(former, previous)
		}
	}
	return former
}

// Pair copies two versions of an object, and hides the secrets in the copies. For nil, it returns nil.
func (m *DiffMasker) Pair(before, after map[string]any) (maskedBefore, maskedAfter map[string]any) {
	one, other := m.pair(mapOrNil(m.secretData(before)), mapOrNil(m.secretData(after)))
	maskedBefore, _ = one.(map[string]any)
	maskedAfter, _ = other.(map[string]any)
	return maskedBefore, maskedAfter
}

// mapOrNil returns an untyped nil for a nil map.
func mapOrNil(object map[string]any) any {
	if object == nil {
		return nil
	}
	return object
}

// secretData replaces the data of a Secret by digests. A text in stringData and the same text in data have the same
// digest.
func (m *DiffMasker) secretData(object map[string]any) map[string]any {
	if kindOf(object) != "Secret" {
		return object
	}
	masked := copyOf(object)
	for _, field := range []string{"data", "stringData"} {
		data, ok := object[field].(map[string]any)
		if !ok && object[field] != nil {
			masked[field] = m.mark(fmt.Sprint(object[field]))
			continue
		}
		hidden := make(map[string]any, len(data))
		for key, value := range data {
			text := fmt.Sprint(value)
			if decoded, err := base64.StdEncoding.DecodeString(text); err == nil && field == "data" {
				text = string(decoded)
			}
			hidden[key] = m.mark(text)
		}
		if ok {
			masked[field] = hidden
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if applied, ok := annotations[lastApplied]; ok {
		metadata, annotations = copyOf(metadata), copyOf(annotations)
		annotations[lastApplied] = m.mark(fmt.Sprint(applied))
		metadata["annotations"], masked["metadata"] = annotations, metadata
	}
	return masked
}

func copyOf(fields map[string]any) map[string]any {
	copied := make(map[string]any, len(fields))
	for key, value := range fields {
		copied[key] = value
	}
	return copied
}

// pair hides the secrets in two values of one field. If one value contains a secret, it hides both: the other value may
// be a former secret that is not recognized.
func (m *DiffMasker) pair(before, after any) (maskedBefore, maskedAfter any) {
	mapBefore, isMapBefore := before.(map[string]any)
	mapAfter, isMapAfter := after.(map[string]any)
	listBefore, isListBefore := before.([]any)
	listAfter, isListAfter := after.([]any)
	switch {
	case (isMapBefore || before == nil) && (isMapAfter || after == nil) && (isMapBefore || isMapAfter):
		return m.pairOfMaps(mapBefore, mapAfter)
	case (isListBefore || before == nil) && (isListAfter || after == nil) && (isListBefore || isListAfter):
		return m.pairOfLists(listBefore, listAfter)
	case isMapBefore || isListBefore || isMapAfter || isListAfter:
		maskedBefore, _ = m.pair(before, nil)
		maskedAfter, _ = m.pair(after, nil)
		return maskedBefore, maskedAfter
	}
	maskedBefore, maskedAfter = m.scalar(before), m.scalar(after)
	hidesBefore, hidesAfter := !reflect.DeepEqual(before, maskedBefore), !reflect.DeepEqual(after, maskedAfter)
	if hidesAfter && !hidesBefore && before != nil {
		maskedBefore = m.mark(fmt.Sprint(before))
	}
	if hidesBefore && !hidesAfter && after != nil {
		maskedAfter = m.mark(fmt.Sprint(after))
	}
	return maskedBefore, maskedAfter
}

func (m *DiffMasker) pairOfMaps(before, after map[string]any) (maskedBefore, maskedAfter any) {
	var one, other map[string]any
	if before != nil {
		one = make(map[string]any, len(before))
	}
	if after != nil {
		other = make(map[string]any, len(after))
	}
	for key, value := range before {
		name := m.text(key)
		var counterpart any
		one[name], counterpart = m.pair(value, after[key])
		if _, is := after[key]; is {
			other[name] = counterpart
		}
	}
	for key, value := range after {
		if _, is := before[key]; !is {
			_, other[m.text(key)] = m.pair(nil, value)
		}
	}
	return mapOrNil(one), mapOrNil(other)
}

func (m *DiffMasker) pairOfLists(before, after []any) (maskedBefore, maskedAfter any) {
	var one, other []any
	for i := range max(len(before), len(after)) {
		a, b := m.pair(at(before, i), at(after, i))
		if i < len(before) {
			one = append(one, a)
		}
		if i < len(after) {
			other = append(other, b)
		}
	}
	return listOrNil(before, one), listOrNil(after, other)
}

// listOrNil returns the copy of a list. An empty list stays empty, and nil stays nil.
func listOrNil(list, copied []any) any {
	switch {
	case list == nil:
		return nil
	case copied == nil:
		return []any{}
	default:
		return copied
	}
}

// scalar hides the secrets in a value that is neither a map nor a list.
func (m *DiffMasker) scalar(value any) any {
	switch value.(type) {
	case nil, bool:
		return value
	}
	text := fmt.Sprint(value)
	if masked := m.text(text); masked != text {
		return masked
	}
	return value
}

// text hides the secrets in a text. If there are any, it appends a digest of the text.
func (m *DiffMasker) text(text string) string {
	masked := m.hide(text)
	if masked == text {
		return text
	}
	return masked + " " + m.digest(text)
}

// mark replaces a whole text by a digest.
func (m *DiffMasker) mark(text string) string { return helmerr.Redacted + " " + m.digest(text) }

// digest returns a digest of a text, in the form that the parser of placeholders recognizes.
func (m *DiffMasker) digest(text string) string {
	sum := hmac.New(sha256.New, m.key)
	sum.Write([]byte(text))
	return fmt.Sprintf("[digest %x]", sum.Sum(nil)[:digestBytes])
}

// digestBytes is the length of a digest. With a random key, short digests reveal nothing about the secret.
const digestBytes = 4
