// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/client-go/rest"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

func TestImpersonatedConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	pool := NewPool(DefaultMemory())
	target := model.Target{Key: "a", Config: &rest.Config{Host: "https://127.0.0.1:1"}}
	kept, err := pool.cluster(target)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxImpersonated {
		target.Impersonate = "system:serviceaccount:a:" + strings.Repeat("b", i+1)
		conn, err := pool.Get(target)
		if err != nil || conn.cluster != kept {
			t.Fatal("another cluster", err)
		}
	}
	if n := len(kept.impersonated); n == 0 || n > maxImpersonated {
		t.Errorf("%d connections are kept", n)
	}
}

func TestValidatesFields(t *testing.T) {
	t.Parallel()
	for version, want := range map[[2]string]bool{
		{"1", "25"}: true, {"1", "37"}: true, {"1", "27+"}: true, {"2", "0"}: true,
		{"1", "24"}: false, {"1", ""}: false, {"", "30"}: false,
	} {
		if got := validatesFields(chartutil.KubeVersion{Major: version[0], Minor: version[1]}); got != want {
			t.Errorf("%v: %t", version, got)
		}
	}
}
