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

package oci

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/singleflight"
)

func TestPanicInSharedWorkIsAnError(t *testing.T) {
	t.Parallel()
	var group singleflight.Group
	_, err := share(t.Context(), &group, "key", time.Minute, func(context.Context) (int, error) { panic("planted-text") })
	err = asError(opBlob, "oci://r.example/x", err)
	if !errors.Is(err, ErrUnexpected) || !strings.HasPrefix(err.Error(), opBlob+" oci://r.example/x: ") {
		t.Fatalf("error = %v, want ErrUnexpected of what was tried", err)
	}
	noSecrets(t, err)
	if got, err := share(t.Context(), &group, "key", time.Minute, func(context.Context) (int, error) { return 1, nil }); err != nil || got != 1 {
		t.Errorf("after it: %d, %v", got, err)
	}
}
