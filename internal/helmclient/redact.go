/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

const (
	redacted = "[redacted]"
	// maxMessageLength bounds an error's message. A condition's message holds 32 KiB; nobody reads more than this.
	maxMessageLength = 1500
	// minSecretLength is the length from which on a sensitive value is looked for in messages: anything shorter
	// occurs in ordinary text too often.
	minSecretLength = 4
	// maxSecrets bounds the sensitive values that are looked for.
	maxSecrets = 500
)

// quotedValue finds the places where API servers, YAML decoders and number parsers quote what they were given.
var quotedValue = regexp.MustCompile(
	`((?:Invalid|Unsupported|Duplicate) value|Too long|Required value|cannot unmarshal !!\w+|parsing|invalid syntax)(:?) ` +
		"(?:\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[{\\[&].*[}\\]]|map\\[.*\\]|-?[0-9][0-9.e+-]*|true|false|null)")

// sensitiveKey matches the keys of values which are looked for in messages.
var sensitiveKey = regexp.MustCompile(`(?i)pass|secret|token|key|cred|auth|cert|private|license|dsn|connection|webhook`)

// redactor removes values from texts. The zero value removes what is quoted as an invalid value.
type redactor struct {
	replacers []*strings.Replacer
}

// newRedactor returns a redactor which also removes the sensitive ones among the values, and all that is in secrets.
func newRedactor(values map[string]any, secretValues []any) redactor {
	found := map[string]struct{}{}
	collectSensitive(secretValues, true, found)
	collectSensitive(values, false, found)
	if len(found) == 0 {
		return redactor{}
	}
	secrets := make([]string, 0, len(found))
	for secret := range found {
		secrets = append(secrets, secret)
	}
	// The longest first: a secret may contain another one.
	sort.Slice(secrets, func(i, j int) bool {
		if len(secrets[i]) != len(secrets[j]) {
			return len(secrets[i]) > len(secrets[j])
		}
		return secrets[i] < secrets[j]
	})
	pairs := make([]string, 0, 4*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, redacted, base64.StdEncoding.EncodeToString([]byte(secret)), redacted)
	}
	return redactor{replacers: []*strings.Replacer{strings.NewReplacer(pairs...)}}
}

// and returns a redactor that removes what either of the two does.
func (r redactor) and(other redactor) redactor {
	return redactor{replacers: slices.Concat(r.replacers, other.replacers)}
}

// collectSensitive gathers the strings below sensitive keys.
func collectSensitive(value any, sensitive bool, found map[string]struct{}) {
	switch typed := value.(type) {
	case map[string]any:
		for key, child := range typed {
			collectSensitive(child, sensitive || sensitiveKey.MatchString(key), found)
		}
	case []any:
		for _, child := range typed {
			collectSensitive(child, sensitive, found)
		}
	case string:
		if sensitive && len(typed) >= minSecretLength && len(found) < maxSecrets {
			found[typed] = struct{}{}
		}
	case int64, float64:
		collectSensitive(fmt.Sprint(typed), sensitive, found)
	}
}

// text returns the text without values, in one line, bounded.
func (r redactor) text(text string) string {
	for _, replacer := range r.replacers {
		text = replacer.Replace(text)
	}
	text = quotedValue.ReplaceAllString(text, "$1$2 "+redacted)
	text = strings.Join(strings.Fields(text), " ")
	return truncate(text, maxMessageLength)
}

// truncate cuts the text to at most limit bytes, between characters.
func truncate(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}
