// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package failures

import (
	"errors"
	"fmt"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/reasons"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	if err := Join([]error{nil, nil}); err != nil {
		t.Errorf("err = %v, want nil", err)
	}
	if err := Join([]error{nil, errors.New("a"), nil, errors.New("b")}); err == nil || err.Error() != "a; b" {
		t.Errorf("err = %v, want a; b", err)
	}
	errs := make([]error, 0, 3000)
	for i := range cap(errs) - 1 {
		errs = append(errs, fmt.Errorf("%d", i))
	}
	errs = append(errs, reasons.ErrRecord)
	err := Join(errs)
	if want := "0; 1; 2; 3; 4; 5; 6; 7; 8; 9; and 2990 more errors"; err.Error() != want {
		t.Errorf("err = %q, want %q", err, want)
	}
	if !errors.Is(err, reasons.ErrRecord) {
		t.Error("errors.Is does not find the last error")
	}
}
