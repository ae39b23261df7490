// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// growing returns a small kustomization with a large output: it writes one long label into many fields of each object.
// The check counts the label and the names of the fields once. It does not count each write of the label.
func growing(label, fields, objects int) map[string]string {
	var kustomization, manifests strings.Builder
	fmt.Fprintf(&kustomization, "resources: [a.yaml]\nlabels:\n- pairs: {l: %q}\n  fields:\n", strings.Repeat("x", label))
	for i := range fields {
		fmt.Fprintf(&kustomization, "  - {path: f%d, create: true}\n", i)
	}
	for i := range objects {
		manifests.WriteString("---\n" + configMap(fmt.Sprint("a", i)))
	}
	return map[string]string{"kustomization.yaml": kustomization.String(), "a.yaml": manifests.String()}
}

// TestKustomizationLimits builds kustomizations in a child process. They pass all checks and exceed the limits of the
// build. The child process must end. This process must not need more memory, and must be able to build again.
func TestKustomizationLimits(t *testing.T) {
	// Do not run in parallel with other tests: the test measures this process.
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all limits")
	}
	const ownMemory = 64 << 20
	for name, tc := range map[string]struct {
		files  map[string]string
		limits sandbox.Limits
		limit  sandbox.Limit
		says   string
	}{
		// The output has 250 MB. The input has 1 MB.
		"one large object": {growing(1_000_000, 250, 1), sandbox.Limits{Memory: 256 << 20}, sandbox.LimitMemory,
			"256 MiB of memory; make its output smaller, or raise --render-memory of the manager"},
		// The output has 200 MB of text and 1,000,000 fields. The input has 150 kB.
		"many objects": {growing(200, 2000, 500), sandbox.Limits{CPU: 3 * time.Second}, sandbox.LimitCPU,
			"3s of CPU time; make its output smaller, or raise --render-cpu of the manager"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ended := make(chan sandbox.Limit, 1)
			pool := sandbox.NewPool(sandbox.Options{
				Limits: tc.limits, Ended: func(limit sandbox.Limit) { ended <- limit },
			})
			t.Cleanup(pool.Close)
			loader := NewLoader(Limits{}, pool)
			source := flux(t, tc.files)
			before := taken()
			_, err := loader.Chart(t.Context(), source)
			grown := taken() - before
			t.Logf("this process had %d MiB of memory, and took %d MiB more: %v", before>>20, grown>>20, err)
			g.Expect(errors.Is(err, ErrLimit)).To(BeTrue(), "%v", err)
			g.Expect(err).To(MatchError(ContainSubstring(
				"building the kustomization in the root was stopped: it needed more than " + tc.says)))
			g.Expect(ended).To(Receive(Equal(tc.limit)))
			g.Expect(grown).To(BeNumerically("<", ownMemory))

			c, err := loader.Chart(t.Context(), flux(t, growing(10, 2, 1)))
			g.Expect(err).NotTo(HaveOccurred(), "the next one")
			g.Expect(c.Templates).To(HaveLen(1))
		})
	}
}

// TestSoleCallerEndsBuild checks that the end of the context of the only caller ends the build of a kustomization.
func TestSoleCallerEndsBuild(t *testing.T) {
	t.Parallel()
	over := errors.New("the time is over")
	ctx, end := context.WithCancelCause(t.Context())
	pool := sandbox.NewPool(sandbox.Options{Started: func() { end(over) }})
	t.Cleanup(pool.Close)
	source := flux(t, growing(10, 2, 1))
	source.IsSole = true
	if _, err := NewLoader(Limits{}, pool).Chart(ctx, source); !errors.Is(err, over) {
		t.Errorf("got %v", err)
	}
}

// taken returns the number of bytes that this process has ever requested from the operating system. The number never
// decreases.
func taken() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys) //nolint:gosec // It is far below.
}
