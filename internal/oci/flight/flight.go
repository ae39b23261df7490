// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package flight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/oci/ocierr"
)

// Call describes a shared call.
type Call struct {
	// Key identifies the result of the call within its group.
	Key string
	// Limit is the maximum time of a run.
	Limit time.Duration
	// Op and Subject are added to errors without an operation or subject.
	Op, Subject string
}

// Do runs fn once for all concurrent callers with the same key. If the context of a caller ends first, this caller gets
// the error of its context.
func Do[T any](ctx context.Context, group *singleflight.Group, call Call,
	fn func(context.Context) (T, error),
) (T, error) {
	done := group.DoChan(call.Key, func() (_ any, err error) {
		defer func() {
			if fault := recover(); fault != nil {
				err = &ocierr.Error{Kind: ocierr.ErrUnexpected, Hint: "please report it",
					Detail: fmt.Sprintf("internal error: panic with a %T", fault)}
			}
		}()
		run, cancel := context.WithTimeout(context.WithoutCancel(ctx), call.Limit)
		defer cancel()
		return fn(run)
	})
	var none T
	select {
	case result := <-done:
		if result.Err != nil {
			return none, call.complete(result.Err)
		}
		value, ok := result.Val.(T)
		if !ok {
			return none, call.complete(&ocierr.Error{Kind: ocierr.ErrUnexpected, Hint: "please report it",
				Detail: fmt.Sprintf("internal error: the key of the call has a result of type %T", result.Val)})
		}
		return value, nil
	case <-ctx.Done():
		return none, call.complete(ctx.Err())
	}
}

// complete converts err to an *ocierr.Error, including errors of a context. It adds the operation and the subject if
// they are missing.
func (c Call) complete(err error) error {
	var own *ocierr.Error
	switch {
	case !errors.As(err, &own):
		return ocierr.FromContext(c.Op, c.Subject, err)
	case own.Op == "":
		out := *own
		out.Op, out.Subject = c.Op, c.Subject
		return &out
	}
	return err
}
