// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectwatch

import (
	"fmt"
	"io"
	"net/url"
	"testing"
)

// TestShortenHasNoURL has the error of a watch that the API server did not answer. Each try has another timeout in its
// URL, and must have the same text: a new text is another write of the status.
func TestShortenHasNoURL(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int{1900, 2400} {
		err := fmt.Errorf("open: %w", &url.Error{Op: "Get", Err: io.EOF,
			URL: fmt.Sprintf("https://10.0.0.1/api/v1/configmaps?timeoutSeconds=%d&watch=true", seconds)})
		if got := shorten(err); got != "EOF" {
			t.Errorf("the text is %q", got)
		}
	}
}
