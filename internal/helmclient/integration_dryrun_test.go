// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmclient

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmerr"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/helmtest"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIntegrationRender checks that Render returns the objects that Act applies later. The templates see an
// installation and an upgrade. Render writes nothing.
func TestIntegrationRender(t *testing.T) {
	b := newBench(t)
	chrt := helmtest.NewChart("1.0.0", map[string]string{
		"value.yaml": helmtest.ValueConfigMap,
		"release.yaml": strings.Replace(helmtest.ConfigMap("release", "x"), "x",
			`{{ .Release.Revision }} {{ .Release.IsUpgrade }} {{ .Capabilities.KubeVersion.Major }} `+
				`{{ (lookup "v1" "Namespace" "" "default").metadata.name }}`, 1),
		"hook.yaml": strings.Replace(helmtest.ConfigMap("hook", "1"), "metadata:",
			"metadata:\n  annotations: {helm.sh/hook: pre-upgrade}", 1),
		"NOTES.txt": "cidr {{ .Values.cidr }}",
	})
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	values := map[string]any{"cidr": "10.0.0.0/8"}
	render := func(data string) {
		t.Helper()
		b.cutter.Take()
		rendered, err := b.client.Render(t.Context(), b.target, desired, b.options, chrt, values)
		if err != nil {
			t.Fatal(err)
		}
		for _, request := range b.cutter.Take() {
			if !strings.HasPrefix(request, http.MethodGet) {
				t.Errorf("Render sent %s", request)
			}
		}
		if !strings.Contains(rendered.Manifest, data) || !strings.Contains(rendered.Manifest, "10.0.0.0/8") ||
			len(rendered.Hooks) != 1 || rendered.Notes != "cidr 10.0.0.0/8" {
			t.Errorf("want %q, got %+v", data, rendered)
		}
	}
	render("1 false 1 default")
	b.converge(desired, chrt, values)
	render("2 true 1 default")
	if history := b.history(desired); !slices.Equal(history, []string{"1 deployed"}) {
		t.Errorf("history %v", history)
	}
}

// TestIntegrationRenderErrors checks the errors of a chart and of values, and that an error contains no secret value.
func TestIntegrationRenderErrors(t *testing.T) {
	b := newBench(t)
	failing := helmtest.NewChart("1.0.0", map[string]string{"fail.yaml": `{{ fail (print "bad " .Values.password) }}`})
	strict := helmtest.NewChart("1.0.0", map[string]string{"value.yaml": helmtest.ValueConfigMap})
	strict.Schema = []byte(`{"properties": {"cidr": {"type": "integer"}}}`)
	desired := helmtest.DesiredFor(b.namespace, "demo", "a1", "v1")
	options := b.options
	options.SecretValues = []any{"planted"}
	_, err := b.client.Render(t.Context(), b.target, desired, options, failing, map[string]any{"password": "planted"})
	helmtest.WantError(t, err, helmerr.ErrChartFailed, false)
	if strings.Contains(err.Error(), "planted") {
		t.Errorf("the error has the secret: %v", err)
	}
	_, err = b.client.Render(t.Context(), b.target, desired, model.Options{}, strict, map[string]any{"cidr": "x"})
	helmtest.WantError(t, err, helmerr.ErrInvalidValues, false)
}
