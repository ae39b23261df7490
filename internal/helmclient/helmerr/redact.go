// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/redaction"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

const (
	// Redacted replaces values in texts.
	Redacted = redaction.Mark
	// maxMessageLength is the maximum length of an error message, in bytes. A condition may hold 32 KiB, but such a long
	// message would be hard to read.
	maxMessageLength = 1500
	// minSecretLength is the minimum length of a value with a sensitive key that is removed from messages. Shorter values
	// occur in ordinary text too often. Values from Secrets are removed whatever their length.
	minSecretLength = 4
)

// quotedValue matches the places where API servers, YAML decoders and number parsers quote their input.
var quotedValue = regexp.MustCompile(
	`((?:Invalid|Unsupported|Duplicate) value|Too long|Required value|cannot unmarshal !!\w+|parsing|invalid syntax)(:?) ` +
		"(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[{\\[&].*[}\\]]|map\\[.*\\]|-?[0-9][0-9.e+-]*|true|false|null)")

// sensitiveKey matches the keys of values that are removed from messages.
var sensitiveKey = regexp.MustCompile(`(?i)pass|secret|token|key|cred|auth|cert|private|license|dsn|connection|webhook`)

// redactor removes values from texts. The zero value removes only values that are quoted as invalid.
type redactor struct {
	sets []*redaction.Set
}

// NewRedactor returns a redactor that also removes values with sensitive keys, and all values in secretValues, in any
// notation.
func NewRedactor(values map[string]any, secretValues []any) redactor {
	return newRedactor(values, secretValues, redaction.New)
}

// NewLargeRedactor returns a redactor like NewRedactor, for the values of a whole fleet, see [redaction.NewLarge].
func NewLargeRedactor(values map[string]any, secretValues []any) redactor {
	return newRedactor(values, secretValues, redaction.NewLarge)
}

func newRedactor(values map[string]any, secretValues []any,
	newSet func(secrets []string, words bool) *redaction.Set,
) redactor {
	sensitive, secret := map[string]struct{}{}, map[string]struct{}{}
	collectSensitive(values, false, minSecretLength, sensitive)
	collectSensitive(secretValues, true, 1, secret)
	var r redactor
	if len(sensitive) > 0 {
		r.sets = append(r.sets, newSet(slices.Sorted(maps.Keys(sensitive)), false))
	}
	if len(secret) > 0 {
		r.sets = append(r.sets, newSet(slices.Sorted(maps.Keys(secret)), true))
	}
	return r
}

// and returns a redactor that removes the values of both redactors.
func (r redactor) and(other redactor) redactor {
	return redactor{sets: slices.Concat(r.sets, other.sets)}
}

// collectSensitive adds the texts below sensitive keys to found, except texts shorter than "least". If sensitive is
// true, all keys count as sensitive.
func collectSensitive(value any, sensitive bool, least int, found map[string]struct{}) {
	switch typed := value.(type) {
	case map[string]any:
		for key, child := range typed {
			collectSensitive(child, sensitive || sensitiveKey.MatchString(key), least, found)
		}
	case []any:
		for _, child := range typed {
			collectSensitive(child, sensitive, least, found)
		}
	case string:
		if sensitive && len(typed) >= least {
			found[typed] = struct{}{}
		}
	case int64:
		collectSensitive(strconv.FormatInt(typed, 10), sensitive, least, found)
	case float64:
		collectSensitive(strconv.FormatFloat(typed, 'g', -1, 64), sensitive, least, found)
		collectSensitive(strconv.FormatFloat(typed, 'f', -1, 64), sensitive, least, found)
	}
}

// Hide returns the text without the values of the redactor.
func (r redactor) Hide(text string) string { return redaction.Hide(text, r.sets...) }

// text returns the text without values, in one line of at most maxMessageLength.
func (r redactor) text(text string) string {
	text = quotedValue.ReplaceAllString(r.Hide(text), "$1$2 "+Redacted)
	text = strings.Join(strings.Fields(text), " ")
	return truncate.Text(text, maxMessageLength)
}
