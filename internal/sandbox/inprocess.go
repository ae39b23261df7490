// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
)

// InProcess returns a [Runner] that runs tasks in this process, without limits. It is for programs whose users provide
// the input themselves.
func InProcess(tasks ...Tasks) Runner { return inProcess(merged(tasks)) }

type inProcess Tasks

// Run implements Runner.
func (t inProcess) Run(ctx context.Context, request Request) (output []byte, err error) {
	defer func() {
		if recover() != nil {
			err = &TaskError{Text: errPanic.Error()}
		}
	}()
	task, ok := t[request.Task]
	if !ok {
		return nil, &TaskError{Text: fmt.Sprintf("there is no task %q", request.Task)}
	}
	if request.Begin != nil {
		if err := request.Begin(); err != nil {
			return nil, err
		}
	}
	work := &Work{Input: request.Input, Note: func(string) {}, Ask: func(question []byte) ([]byte, error) {
		if request.Answer == nil {
			return nil, &TaskError{Text: "nothing is answered here"}
		}
		return request.Answer(ctx, question)
	}}
	if request.Shared != nil {
		data, err := request.Shared.Data()
		if err != nil {
			return nil, err
		}
		if work.Shared, err = task.Decode(data); err != nil {
			return nil, &TaskError{Text: err.Error()}
		}
	}
	output, err = task.Run(work)
	if err != nil {
		return nil, &TaskError{Text: err.Error()}
	}
	return output, nil
}
