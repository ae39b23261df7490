// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

func TestBuildKustomization(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{
		"base/kustomization.yaml": []byte("resources: [cm.yaml]\n"), "base/cm.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"),
		"over/kustomization.yaml": []byte("resources: [../base]\nnamePrefix: p-\n"),
		"bad/kustomization.yaml":  []byte("resources: [https://example.com/x.yaml]\n"),
	}
	objects, err := Build(files, "over", unpack.Limits{})
	if err != nil || len(objects) != 1 || !strings.Contains(string(objects[0]), `"name":"p-a"`) {
		t.Errorf("%s, %v", objects, err)
	}
	if _, err := Build(files, "bad", unpack.Limits{}); !errors.Is(err, unpack.ErrInvalidManifests) {
		t.Errorf("%v", err)
	}
}
