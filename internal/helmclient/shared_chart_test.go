// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

// sharedChart returns a chart with all parts that Helm changes: dependencies with conditions, tags and aliases,
// imported values, global values, and values that null deletes.
func sharedChart() *chart.Chart {
	file := func(name, content string) *chart.File { return &chart.File{Name: name, Data: []byte(content)} }
	child := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: "v2", Name: "child", Version: "1.0.0"},
		Values: map[string]any{
			"color": "child", "exports": map[string]any{"shared": map[string]any{"imported": "from child"}}, "list": []any{"a"},
		},
		Templates: []*chart.File{file("templates/child.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name }}\n"+
				"data:\n  key: \"{{ .Values.color }}/{{ .Values.global.site }}\"\n")},
	}
	other := &chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: "other", Version: "1.0.0"},
		Values:    map[string]any{"nested": map[string]any{"deep": "value"}},
		Templates: []*chart.File{file("templates/other.yaml", helmtest.ConfigMap("{{ .Release.Name }}-other", "other"))},
	}
	parent := &chart.Chart{
		Metadata: &chart.Metadata{
			APIVersion: "v2", Name: "parent", Version: "1.0.0", Keywords: []string{"k"}, Sources: []string{"s"},
			Maintainers: []*chart.Maintainer{{Name: "m"}}, Dependencies: []*chart.Dependency{
				{Name: "child", Version: "1.x", Condition: "child.enabled", ImportValues: []any{"shared"}},
				{Name: "child", Version: "1.x", Alias: "twin", Tags: []string{"twins"}},
				{Name: "other", Version: "1.x", Condition: "other.enabled",
					ImportValues: []any{map[string]any{"child": "nested", "parent": "copied"}}},
			},
		},
		Values: map[string]any{
			"number": "none", "global": map[string]any{"site": "nowhere"}, "removed": map[string]any{"by": "null"},
			"other": map[string]any{"enabled": false}, "tags": map[string]any{"twins": false},
		},
		Templates: []*chart.File{file("templates/parent.yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-parent\n"+
				"data:\n  key: \"{{ .Values.number }}/{{ .Values.imported }}/{{ .Values.removed }}/{{ dig \"copied\" \"deep\" "+
				"\"none\" .Values.AsMap }}\"\n")},
		Files: []*chart.File{file("README.md", "read me")},
	}
	parent.AddDependency(child, other)
	return parent
}

// dumpChart returns a complete chart as text.
func dumpChart(t testing.TB, chrt *chart.Chart) string {
	t.Helper()
	data, err := json.Marshal(chrt)
	if err != nil {
		t.Fatal(err)
	}
	text := chrt.ChartFullPath() + string(data)
	for _, dependency := range chrt.Dependencies() {
		text += "\n" + dumpChart(t, dependency)
	}
	return text
}

// TestIntegrationSharedChartIsNotChanged runs concurrent installations and upgrades with one parsed chart and different
// values. They must not change the chart. The race detector finds violations.
func TestIntegrationSharedChartIsNotChanged(t *testing.T) {
	b := newBench(t)
	chrt := sharedChart()
	before := dumpChart(t, chrt)
	const workers = 8
	var group sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		group.Go(func() { errs[i] = b.installShared(i, chrt) })
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	if after := dumpChart(t, chrt); after != before {
		t.Errorf("the chart became %s", after)
	}
	for i := range workers {
		odd := i%2 == 1
		want := map[string]string{"demo-parent": fmt.Sprintf("%d/from child/map[by:null]/none", i),
			"demo-child": fmt.Sprintf("child/site-%d", i)}
		if odd {
			want = map[string]string{"demo-parent": fmt.Sprintf("%d///value", i), "demo-other": "other",
				"demo-twin": fmt.Sprintf("color-%d/site-%d", i, i)}
		}
		b.wantShared(i, want)
	}
}

// installShared installs and upgrades the chart with the values of one worker.
func (b *bench) installShared(i int, chrt *chart.Chart) error {
	desired := helmtest.DesiredFor(fmt.Sprintf("%s-%d", b.namespace, i), "demo", "a1", "v1")
	for _, site := range []string{"before", fmt.Sprintf("site-%d", i)} {
		values := map[string]any{"number": fmt.Sprint(i), "global": map[string]any{"site": site}}
		if i%2 == 1 {
			values["child"] = map[string]any{"enabled": false}
			values["twin"] = map[string]any{"color": fmt.Sprintf("color-%d", i)}
			values["tags"] = map[string]any{"twins": true}
			values["other"] = map[string]any{"enabled": true}
			values["removed"] = nil
		}
		copied := rendering.CopyValues(values)
		desired.ValuesDigest = site
		if _, err := b.act(b.decide(desired, model.Policy{}), desired, chrt, values); err != nil {
			return err
		}
		if fmt.Sprint(values) != fmt.Sprint(copied) {
			return fmt.Errorf("the values became %v", values)
		}
	}
	return nil
}

func (b *bench) wantShared(i int, want map[string]string) {
	b.t.Helper()
	configMaps := b.kube.CoreV1().ConfigMaps(fmt.Sprintf("%s-%d", b.namespace, i))
	for _, name := range []string{"demo-parent", "demo-child", "demo-twin", "demo-other"} {
		object, err := configMaps.Get(b.t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			b.t.Fatal(err)
		}
		if got := object.Data["key"]; got != want[name] {
			b.t.Errorf("%s of release %d: %q, want %q", name, i, got, want[name])
		}
	}
}

func BenchmarkCopyChart(b *testing.B) {
	chrt := sharedChart()
	for range 50 {
		chrt.Files = append(chrt.Files, &chart.File{Name: "file", Data: []byte(strings.Repeat("content ", 2000))})
	}
	for b.Loop() {
		rendering.CopyChart(chrt)
	}
}
