// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package unpack

import (
	"errors"
	"fmt"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// Weight is the maximum size of a text after it is parsed.
type Weight struct {
	Bytes  int64
	Tokens int
	// Escapes is the number of bytes that escapes add.
	Escapes int64
}

// Plus returns the sum of two weights.
func (w Weight) Plus(other Weight) Weight {
	return Weight{Bytes: w.Bytes + other.Bytes, Tokens: w.Tokens + other.Tokens, Escapes: w.Escapes + other.Escapes}
}

// ParseCost returns the estimated memory, in bytes, of a parse of a text of this weight.
func (w Weight) ParseCost() int64 {
	return yamlweight.Weight{Bytes: w.Bytes, Values: w.Tokens, Escapes: w.Escapes}.ParseCost()
}

// Weigh returns the weight of a text with expanded aliases. To weigh aliases, it parses the text, and first reserves
// memory for this parse. Errors have the kind invalid, or are errors of the [Memory].
func Weigh(name string, text []byte, limits Limits, invalid error, memory *Memory) (Weight, error) {
	switch err := yamlweight.Refusal(text); {
	case errors.Is(err, yamlweight.ErrEncoding):
		return Weight{}, fmt.Errorf("%w: %q is not UTF-8 text", invalid, Clip(name))
	case err != nil:
		return Weight{}, fmt.Errorf("%w: %q has a %%TAG directive; use full tags", invalid, Clip(name))
	}
	w := yamlweight.Of(text)
	if w.Bytes <= limits.TextBytes && w.Values <= limits.TextTokens && yamlweight.HasAliases(text) {
		if err := memory.Parse(w.ParseCost()); err != nil {
			return Weight{}, err
		}
		expanded, err := yamlweight.Expanded(text)
		if errors.Is(err, yamlweight.ErrCycle) {
			return Weight{}, fmt.Errorf("%w: %q has an anchor that contains itself", invalid, Clip(name))
		}
		if err != nil {
			return Weight{}, fmt.Errorf("%w: cannot load %s: %s", invalid, Clip(name), Clip(err.Error()))
		}
		w = w.Max(expanded)
	}
	return Weight{Bytes: w.Bytes, Tokens: w.Values, Escapes: w.Escapes}, nil
}
