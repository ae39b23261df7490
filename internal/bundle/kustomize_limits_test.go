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

package bundle

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// growing is a kustomization of few bytes that yields many: it writes one long label into so many fields of each object. The check
// counts the label and the names of the fields, and not how often the label is written.
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

// TestLimitsOfKustomizations builds what passes all checks and grows beyond its limits, in a child. The child ends, and this process
// neither grows with it nor stops building.
func TestLimitsOfKustomizations(t *testing.T) {
	// Not beside other tests: it measures this process.
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all limits")
	}
	const childMemory, ownMemory = 256 << 20, 64 << 20
	for name, files := range map[string]map[string]string{
		// 250 MB out of 1 MB.
		"one large object": growing(1_000_000, 250, 1),
		// 200 MB of texts and 1,000,000 fields out of 150 kB.
		"many objects": growing(200, 2000, 500),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ended := make(chan sandbox.Limit, 1)
			pool := sandbox.NewPool(sandbox.Options{
				Limits: sandbox.Limits{Memory: childMemory}, Ended: func(limit sandbox.Limit) { ended <- limit },
			})
			t.Cleanup(pool.Close)
			loader, err := NewLoader(Limits{}, pool)
			g.Expect(err).NotTo(HaveOccurred())
			source := flux(t, files)
			before := taken()
			_, err = loader.Chart(t.Context(), source)
			grown := taken() - before
			t.Logf("this process had %d MiB of memory, and took %d MiB more: %v", before>>20, grown>>20, err)
			g.Expect(errors.Is(err, ErrLimit)).To(BeTrue(), "%v", err)
			g.Expect(err).To(MatchError(ContainSubstring("the kustomization in the root was ended, for it needed more than 256 MiB of memory: " +
				"have it yield less, or raise --render-memory of the manager")))
			g.Expect(ended).To(Receive(Equal(sandbox.LimitMemory)))
			g.Expect(grown).To(BeNumerically("<", ownMemory))

			c, err := loader.Chart(t.Context(), flux(t, growing(10, 2, 1)))
			g.Expect(err).NotTo(HaveOccurred(), "the next one")
			g.Expect(c.Templates).To(HaveLen(1))
		})
	}
}

// taken is the memory that this process has taken from the operating system so far, in bytes, given back or not: it never shrinks.
func taken() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.Sys) //nolint:gosec // It is far below.
}
