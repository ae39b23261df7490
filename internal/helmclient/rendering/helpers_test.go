// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"fmt"
	"os"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.Serve(Tasks())
	os.Exit(m.Run())
}

func newTestRenderer(t testing.TB, limits sandbox.Limits) *Renderer {
	t.Helper()
	pool := sandbox.NewPool(sandbox.Options{Limits: limits})
	t.Cleanup(pool.Close)
	return NewRenderer(pool)
}

func checkIn(t *testing.T, chrt *chart.Chart, values map[string]any) error {
	t.Helper()
	return newTestRenderer(t, sandbox.Limits{}).CheckValues(t.Context(), Source{Chart: chrt, Values: values})
}

// newChart returns a chart with templates, given as content by name.
func newChart(version string, templates map[string]string) *chart.Chart {
	chrt := &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "demo", Version: version,
		AppVersion: "1." + version}}
	for name, content := range templates {
		chrt.Templates = append(chrt.Templates, &chart.File{Name: "templates/" + name, Data: []byte(content)})
	}
	return chrt
}

func configMap(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  key: %q\n", name, data)
}
