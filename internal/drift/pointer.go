// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"errors"
	"fmt"
	"strings"
)

var (
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
)

// parsePointer returns the tokens of a JSON pointer (RFC 6901). The pointer to the whole document has no tokens.
// parsePointer rejects "-", which means the element after the last one of a list: this element never exists.
func parsePointer(text string) ([]string, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("%q must start with /", text)
	}
	tokens := strings.Split(text[1:], "/")
	for i, token := range tokens {
		if token == "-" {
			return nil, fmt.Errorf("%q must not contain the array index -", text)
		}
		if err := checkEscapes(token); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		tokens[i] = unescaper.Replace(token)
	}
	return tokens, nil
}

// checkEscapes returns an error unless each ~ is followed by 0 or 1.
func checkEscapes(token string) error {
	for i := range len(token) {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return errors.New("~ must be followed by 0 or 1")
		}
	}
	return nil
}

// FormatPointer returns the JSON pointer (RFC 6901) for tokens. Without tokens, the pointer is empty. FormatPointer is
// the inverse of parsePointer.
func FormatPointer(tokens []string) string {
	var text strings.Builder
	for _, token := range tokens {
		text.WriteByte('/')
		text.WriteString(escaper.Replace(token))
	}
	return text.String()
}
