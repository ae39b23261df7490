// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package yamlweight

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// inUTF16 returns a text in UTF-16 with a byte order mark.
func inUTF16(order binary.AppendByteOrder, text string) []byte {
	var data []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		data = order.AppendUint16(data, unit)
	}
	return data
}

// TestRefusal checks which texts must not be parsed. The parser reads UTF-16 text, so its aliases must not be missed.
func TestRefusal(t *testing.T) {
	t.Parallel()
	const aliases = "a: &a text\nl: [*a, b]\n"
	little, big := inUTF16(binary.LittleEndian, aliases), inUTF16(binary.BigEndian, aliases)
	for name, tc := range map[string]struct {
		text []byte
		want error
	}{
		"UTF-8":                            {[]byte(aliases), nil},
		"UTF-8 with a byte order mark":     {[]byte("\ufeff" + aliases), nil},
		"letters of other scripts":         {[]byte("name: Zo\u00eb"), nil},
		"UTF-16, little endian":            {little, ErrEncoding},
		"UTF-16, big endian":               {big, ErrEncoding},
		"UTF-16 in the second document":    {append([]byte("a: b\n---\n"), little...), ErrEncoding},
		"a directive":                      {[]byte("%TAG ! tag:x,\n---\n!a b"), ErrTag},
		"a directive after other text":     {[]byte("a: b\n...\n%TAG ! tag:x,\n---\n!a b"), ErrTag},
		"a directive in UTF-16":            {inUTF16(binary.BigEndian, "%TAG ! tag:x,\n---\n!a b"), ErrEncoding},
		"the characters of the directive":  {[]byte("a: \"%TAG%\""), nil},
		"a latin letter that is not UTF-8": {[]byte("name: Zo\xeb"), ErrEncoding},
	} {
		if err := Refusal(tc.text); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	for name, text := range map[string][]byte{"little endian": little, "big endian": big} {
		var parsed struct{ L []string }
		if err := yaml.Unmarshal(text, &parsed); err != nil || strings.Join(parsed.L, " ") != "text b" {
			t.Errorf("%s: the parser does not expand aliases in UTF-16: %v, %v", name, parsed, err)
		}
		if HasAliases(text) {
			t.Errorf("%s: aliases are found in UTF-16, so the refusal is not needed", name)
		}
	}
}

// TestParseCost checks the estimate for a text, and for the largest weight, which must not overflow.
func TestParseCost(t *testing.T) {
	t.Parallel()
	if got := Of([]byte("l: [<, b]\n")).ParseCost(); got != 10*7+3*400+(5+1)*5 {
		t.Errorf("got %d for 10 bytes, 3 values and 2 characters with escapes", got)
	}
	if got := (Weight{Bytes: Most, Values: Most, Escapes: Most}).ParseCost(); got != Most*412 {
		t.Errorf("got %d for the largest weight", got)
	}
}

// TestEscapes checks that a scalar in JSON is not longer than its text in YAML with the counted escapes.
func TestEscapes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"plain", "<a href=x>&</a>", `'"quotes" "in" "quotes"'`, `C:\Users\x`, "|\n lines\n of\n text\n", "|\n a\tb\tc\n",
		`"\0\0\0\a\v\e\e"`, `"\x01\x02\u0003"`, `"\N\L\P\_"`, "|\n \u2028\u2029\u2028\n", "é – © 😀", `"\\ \" \n"`,
	} {
		var value string
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		written, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if weight, size := Of([]byte(text)), int64(len(written)-len(`""`)); size > weight.Bytes+weight.Escapes {
			t.Errorf("%s: %d bytes with %d for escapes, but %s", text, weight.Bytes, weight.Escapes, written)
		}
		expanded, err := Expanded([]byte(text))
		if size := int64(len(written) - len(`""`)); err != nil || size > expanded.Bytes+expanded.Escapes {
			t.Errorf("%s expanded: %+v, %v, but %s", text, expanded, err, written)
		}
	}
}
