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
	const (
		maps = `"f:metadata":{"f:annotations":{".":{},"f:meta.helm.sh/release-name":{}},` +
			`"f:labels":{".":{},"f:app.kubernetes.io/managed-by":{}}}`
		marks = `"f:metadata":{"f:annotations":{"f:meta.helm.sh/release-name":{}},` +
			`"f:labels":{"f:app.kubernetes.io/managed-by":{}}}`
		annotation = `"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}}`
		content    = `"f:data":{".":{},"f:key":{}}`
		change     = `"f:data":{"f:key":{}}`
	)
	created := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	entry := func(manager string, after time.Duration, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(created.Add(after))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(`{` + fields + `}`)}
	}
	own := func(after time.Duration, fields string) metav1.ManagedFieldsEntry {
		return entry(model.FieldManager, after, fields)
	}
	status := entry("controller", 0, `"f:status":{".":{}}`)
	status.Subresource = "status"
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"no managed fields":       {nil, false},
		"created":                 {[]metav1.ManagedFieldsEntry{own(0, maps+","+content)}, true},
		"created, changed later":  {[]metav1.ManagedFieldsEntry{own(time.Second, maps+","+content)}, true},
		"created without content": {[]metav1.ManagedFieldsEntry{own(time.Second, maps)}, true},
		"with a status":           {[]metav1.ManagedFieldsEntry{own(time.Second, maps), status}, true},
		"annotated by its controller": {[]metav1.ManagedFieldsEntry{own(0, maps),
			entry("controller", 0, annotation)}, true},
		"annotated by its controller, changed later": {[]metav1.ManagedFieldsEntry{own(time.Second, maps),
			entry("controller", 0, annotation)}, true},
		"completed by its controller at once": {[]metav1.ManagedFieldsEntry{own(0, maps+","+content),
			entry("controller", 0, change+`,"f:status":{"f:ready":{}}`)}, true},
		"without its own map, completed at once": {[]metav1.ManagedFieldsEntry{own(0, maps+`,"f:spec":{"f:a":{}}`),
			entry("controller", 0, `"f:spec":{"f:b":{}}`)}, false},
		"completed by its controller": {[]metav1.ManagedFieldsEntry{own(0, maps),
			entry("controller", time.Second, change)}, true},
		"changed by a user": {[]metav1.ManagedFieldsEntry{own(0, maps),
			entry("kubectl", time.Second, change)}, true},
		"in two versions": {[]metav1.ManagedFieldsEntry{own(0, `"f:metadata":{"f:labels":{".":{}}}`),
			own(time.Second, `"f:metadata":{"f:annotations":{".":{}}}`)}, true},
		"taken over": {[]metav1.ManagedFieldsEntry{entry("kubectl", 0, maps+","+content), own(time.Second, marks)}, false},
		"taken over in the second of its creation": {[]metav1.ManagedFieldsEntry{entry("kubectl", 0, maps+","+content),
			own(0, marks)}, false},
		"taken over, changed later by its creator": {[]metav1.ManagedFieldsEntry{own(time.Second, marks),
			entry("kubectl", time.Minute, maps+","+content)}, false},
		"taken over without labels": {[]metav1.ManagedFieldsEntry{entry("kubectl", 0, annotation),
			own(time.Second, `"f:metadata":{"f:labels":{".":{}},"f:annotations":{"f:meta.helm.sh/release-name":{}}}`)},
			false},
		"taken over without metadata": {[]metav1.ManagedFieldsEntry{entry("kubectl", 0, content),
			own(time.Second, maps)}, false},
		"taken over, unknown time": {[]metav1.ManagedFieldsEntry{
			{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{` + content + `}`)}, own(time.Second, maps)}, false},
		"prepared by a user": {[]metav1.ManagedFieldsEntry{entry("kubectl", 0, maps),
			own(time.Second, change)}, false},
		"fields that cannot be decoded":    {[]metav1.ManagedFieldsEntry{own(0, `"`)}, false},
		"fields that have no nested field": {[]metav1.ManagedFieldsEntry{own(0, `"f:metadata":1`)}, false},
		"never written by HelmOp":          {[]metav1.ManagedFieldsEntry{entry("kubectl", time.Second, maps)}, false},
	} {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created,
			ManagedFields: test.entries}}
		if got := isMadeByHelmOp(object); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
