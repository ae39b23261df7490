// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeletedWith(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":           {nil, ""},
		"release":        {map[string]string{HelmReleaseName: "r", HelmReleaseNamespace: "ns"}, "ns/r"},
		"name only":      {map[string]string{HelmReleaseName: "r"}, ""},
		"namespace only": {map[string]string{HelmReleaseNamespace: "ns"}, ""},
		"kept": {map[string]string{HelmReleaseName: "r", HelmReleaseNamespace: "ns",
			"helm.sh/resource-policy": "keep"}, ""},
		"kept in another spelling": {map[string]string{HelmReleaseName: "r", HelmReleaseNamespace: "ns",
			"helm.sh/resource-policy": " Keep"}, ""},
		"other policy": {map[string]string{HelmReleaseName: "r", HelmReleaseNamespace: "ns",
			"helm.sh/resource-policy": "delete"}, "ns/r"},
	} {
		if got := DeletedWith(&metav1.ObjectMeta{Annotations: test.annotations}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
