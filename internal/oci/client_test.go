// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

func TestPanicInSharedCallIsAnError(t *testing.T) {
	t.Parallel()
	var group singleflight.Group
	_, err := share(t.Context(), &group, "key", time.Minute, func(context.Context) (int, error) { panic("planted-text") })
	err = asError(opBlob, "oci://r.example/x", err)
	if !errors.Is(err, ocierr.ErrUnexpected) || !strings.HasPrefix(err.Error(), opBlob+" oci://r.example/x: ") {
		t.Fatalf("error = %v, want ErrUnexpected of what was tried", err)
	}
	noSecrets(t, err)
	if got, err := share(t.Context(), &group, "key", time.Minute,
		func(context.Context) (int, error) { return 1, nil }); err != nil || got != 1 {
		t.Errorf("after it: %d, %v", got, err)
	}
}
