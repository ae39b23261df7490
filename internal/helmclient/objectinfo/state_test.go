// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package objectinfo

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// TestIsMadeByHelmOp checks which managed fields show that HelmOp created an object.
func TestIsMadeByHelmOp(t *testing.T) {
	t.Parallel()
	created := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	entry := func(manager, subresource string, after time.Duration) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(created.Add(after))
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &at}
	}
	own := entry(model.FieldManager, "", 0)
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"none":                    {nil, false},
		"HelmOp":                  {[]metav1.ManagedFieldsEntry{own}, true},
		"with a status":           {[]metav1.ManagedFieldsEntry{own, entry("controller", "status", 0)}, true},
		"changed later":           {[]metav1.ManagedFieldsEntry{own, entry("kubectl", "", time.Second)}, true},
		"created by another":      {[]metav1.ManagedFieldsEntry{entry("kubectl", "", 0), own}, false},
		"with an unknown time":    {[]metav1.ManagedFieldsEntry{own, {Manager: "kubectl"}}, false},
		"never written by HelmOp": {[]metav1.ManagedFieldsEntry{entry("kubectl", "", time.Second)}, false},
	} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created,
			ManagedFields: test.entries}}
		if got := isMadeByHelmOp(object); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
