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

package binaries

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestLineCounterCountsWhatACommandWrites(t *testing.T) {
	var counter lineCounter
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "echo one >&2; echo two >&2; read line")
	cmd.Stderr = &counter
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The command runs until its input ends.
	err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return counter.count() == 2, nil
	})
	if err != nil {
		t.Errorf("%d lines are counted while the command runs", counter.count())
	}
	if _, err := io.WriteString(stdin, "end\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(counter.text.String()); counter.count() != 2 || len(got) != 2 {
		t.Errorf("%d lines: %q", counter.count(), got)
	}
}
