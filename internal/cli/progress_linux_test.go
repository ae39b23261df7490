// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/exit"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/terminal"
)

// barBegin is the start of a bar with sizes that need no leading zeros.
var barBegin = regexp.MustCompile(`^pushing (0|[1-9]\d*)(\.\d)? (B|KiB|MiB) of [1-9]\d*(\.\d)? (B|KiB|MiB) \[`)

// TestProgress checks that a transfer draws a bar on a terminal, and prints lines otherwise.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.write("dir/one.yaml", configMap)
	push := func(name string, to, from *os.File) string {
		t.Helper()
		args := []string{"push", b.path("dir"), b.at(name + ":v1"), "--ca-file", b.path("ca.crt"), "--registry-config",
			b.path("config.json")}
		code := Run(t.Context(), args, Streams{In: strings.NewReader(""), Out: io.Discard, ErrOut: to})
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(from) // If the other side of a terminal is closed, a read returns an error.
		if code != exit.Done {
			t.Fatalf("exit code %d: %s", code, said)
		}
		return string(said)
	}

	program, user := terminal.Open(t, 60)
	drawn := push("drawn", program, user)
	bars := strings.Split(strings.TrimSpace(drawn), "\r")
	for _, bar := range bars[1:] {
		if !barBegin.MatchString(bar) || len(bar) >= 60 {
			t.Errorf("%q is no bar of a line", bar)
		}
	}
	if last := bars[len(bars)-1]; !strings.HasSuffix(last, "==]") || strings.Contains(drawn, "sha256:") {
		t.Errorf("a terminal shows %q", drawn)
	}

	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := push("told", to, from)
	if strings.Contains(lines, "\r") || strings.Count(lines, " sha256:") != 3 {
		t.Errorf("a pipe gets %q", lines)
	}
}
