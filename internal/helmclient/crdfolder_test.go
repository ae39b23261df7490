// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"errors"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/crds"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/rendering"
)

func crdFolderOf(t *testing.T, chrt *chart.Chart, values map[string]any) ([]*crds.Object, error) {
	t.Helper()
	files, err := rendering.NewRenderer(testRunner).CRDs(t.Context(), rendering.Source{Chart: chrt, Values: values})
	if err != nil {
		return nil, err
	}
	return crds.NewCache(crds.MaxCacheBytes).Read(nil, files)
}

func TestCRDFolder(t *testing.T) {
	t.Parallel()
	withCRD := func(name, group string) *chart.Chart {
		chrt := helmtest.ChartWithCRDs("1.0.0", nil, map[string]string{"crd.yaml": helmtest.CrdOf(group, "v1", "v2")})
		chrt.Metadata.Name = name
		return chrt
	}
	parent := func() *chart.Chart {
		chrt := withCRD("parent", "parent.test")
		chrt.Metadata.Dependencies = []*chart.Dependency{
			{Name: "on", Version: "1.0.0", Condition: "on.enabled"}, {Name: "off", Version: "1.0.0", Condition: "off.enabled"},
		}
		chrt.AddDependency(withCRD("on", "on.test"), withCRD("off", "off.test"))
		return chrt
	}
	chrt := parent()
	for _, test := range []struct {
		values map[string]any
		want   string
	}{
		{nil, "widgets.parent.test widgets.on.test widgets.off.test"},
		{map[string]any{"off": map[string]any{"enabled": false}}, "widgets.parent.test widgets.on.test"},
		{map[string]any{"off": map[string]any{"enabled": false}, "on": map[string]any{"enabled": false}},
			"widgets.parent.test"},
	} {
		objects, err := crdFolderOf(t, chrt, test.values)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range objects {
			names = append(names, object.Name)
			if !object.IsCRD() || len(object.Serves) != 2 || object.Serves[1].Version != "v2" ||
				object.Serves[1].Kind != "Widget" {
				t.Errorf("%+v", object)
			}
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("with %v: %s, want %s", test.values, got, test.want)
		}
	}
	if len(chrt.Dependencies()) != 2 || len(chrt.Metadata.Dependencies) != 2 {
		t.Error("the chart was changed")
	}
	if objects, err := crdFolderOf(t, helmtest.NewChart("1.0.0", helmtest.TwoConfigMaps()), nil); err != nil ||
		objects != nil {
		t.Errorf("a chart without CRDs: %v, %v", objects, err)
	}
}

func TestCRDFolderErrors(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"YAML": "a: b: c", "a list": "- a", "no name": "apiVersion: v1\nkind: ConfigMap\n",
		"no kind":     "apiVersion: v1\nmetadata: {name: a}\n",
		"odd version": "apiVersion: a/b/c\nkind: A\nmetadata: {name: a}\n",
		"odd spec":    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: []\n",
		"no spec":     "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\n",
	} {
		chrt := helmtest.ChartWithCRDs("1.0.0", nil, map[string]string{"odd.yaml": content})
		if _, err := crdFolderOf(t, chrt, nil); !errors.Is(helmerr.Classify(err), helmerr.ErrInvalidChart) ||
			!strings.Contains(err.Error(), "crds/odd.yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
