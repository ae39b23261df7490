// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

func schemaChart(schema string) *chart.Chart {
	chrt := newChart("1.0.0", nil)
	chrt.Schema = []byte(schema)
	return chrt
}

func TestCheckChartSchema(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the schema made the controller send a request")
	}))
	t.Cleanup(server.Close)
	secret := map[string]any{"secret": "geheim", "list": []any{map[string]any{"port": "geheim"}}}
	tests := map[string]struct {
		schema string
		values map[string]any
		kind   error
		want   string
	}{
		"met": {`{"properties":{"secret":{"type":"string"}}}`, secret, nil, ""},
		"type": {`{"properties":{"secret":{"type":"integer"}}}`, secret, ErrInvalidValues,
			"/secret: must be integer, not string"},
		"nested": {`{"properties":{"list":{"items":{"properties":{"port":{"type":"integer"}}}}}}`, secret,
			ErrInvalidValues, "/list/0/port: must be integer, not string"},
		"enum": {`{"properties":{"secret":{"enum":["a","b"]}}}`, secret, ErrInvalidValues,
			"/secret: must be one of [a b]"},
		"pattern":  {`{"properties":{"secret":{"pattern":"^a"}}}`, secret, ErrInvalidValues, "/secret: must match ^a"},
		"constant": {`{"properties":{"secret":{"const":"a"}}}`, secret, ErrInvalidValues, "/secret: does not match const"},
		"length": {`{"properties":{"secret":{"maxLength":2}}}`, secret, ErrInvalidValues,
			"/secret: does not match maxLength"},
		"format": {`{"properties":{"secret":{"minLength":200}}}`, secret, ErrInvalidValues,
			"/secret: does not match minLength"},
		"required": {`{"required":["other"]}`, secret, ErrInvalidValues, "/: lacks other"},
		"additional": {`{"additionalProperties":false,"properties":{"list":{}}}`, secret, ErrInvalidValues,
			"/: does not allow secret"},
		"false":     {`{"properties":{"secret":false}}`, secret, ErrInvalidValues, "/secret: is not allowed"},
		"no JSON":   {`{`, secret, ErrInvalidChart, "schema"},
		"no schema": {`{"type":7}`, secret, ErrInvalidChart, "schema"},
		"elsewhere": {`{"$ref":"` + server.URL + `/schema.json"}`, secret, nil, ""},
		"a file":    {`{"$ref":"file:///etc/passwd"}`, secret, nil, ""},
		"many": {`{"additionalProperties":{"type":"string"}}`,
			map[string]any{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "g": 1},
			ErrInvalidValues, "/e: must be string, not number; and 2 more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkIn(t, schemaChart(test.schema), test.values)
			if !errors.Is(err, test.kind) {
				t.Fatalf("kind of %v, want %v", err, test.kind)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "geheim") {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}

func TestCheckChartSubchartSchema(t *testing.T) {
	t.Parallel()
	parent := func() *chart.Chart {
		chrt := newChart("1.0.0", nil)
		sub := schemaChart(`{"properties":{"port":{"type":"integer"}}}`)
		sub.Metadata.Name = "sub"
		chrt.AddDependency(sub)
		chrt.Metadata.Dependencies = []*chart.Dependency{{Name: "sub", Version: "1.0.0", Condition: "sub.enabled"}}
		return chrt
	}
	bad := map[string]any{"sub": map[string]any{"enabled": true, "port": "geheim"}}
	if err := checkIn(t, parent(), bad); !errors.Is(err, ErrInvalidValues) ||
		!strings.Contains(err.Error(), "/sub/port: must be integer") {
		t.Errorf("enabled: %v", err)
	}
	bad["sub"].(map[string]any)["enabled"] = false
	if err := checkIn(t, parent(), bad); err != nil {
		t.Errorf("disabled: %v", err)
	}
}
