// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
)

// TestAsk answers a question. Without an answer, the end of the context must end the question.
func TestAsk(t *testing.T) {
	t.Parallel()
	ask := func(ctx context.Context, in io.Reader) error {
		s := newSteer(kube.Options{Streams: genericiooptions.IOStreams{In: in, Out: io.Discard, ErrOut: io.Discard}})
		return s.ask(ctx, "what", "question?", "nothing was done", false)
	}
	for answer, isYes := range map[string]bool{"y\n": true, " Yes \n": true, "yes": true, "n\n": false, "": false} {
		err := ask(t.Context(), strings.NewReader(answer))
		if isYes != (err == nil) || err != nil && err.Error() != "nothing was done" {
			t.Errorf("%q: got %v", answer, err)
		}
	}
	silent, silence := io.Pipe()
	defer func() { _ = silence.Close() }()
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ask(interrupted, silent); !errors.Is(err, context.Canceled) || err.Error() != "nothing was done" {
		t.Errorf("got %v after an interruption", err)
	}
}
