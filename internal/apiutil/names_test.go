// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package apiutil

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestChildName(t *testing.T) {
	long := strings.Repeat("a", 253)
	names := map[string]string{}
	for _, pair := range [][2]string{
		{"calico", "one"}, {"calico", "two"}, {"cilium", "one"},
		{"a-b", "c"}, {"a", "b-c"}, {"a.b", "c"}, {long, "one"}, {long, "two"}, {"calico", long},
		{strings.Repeat("a.", 120) + "a", "one"},
	} {
		name := ChildName(pair[0], pair[1])
		if name != ChildName(pair[0], pair[1]) {
			t.Errorf("the name of %v is not always the same", pair)
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("childName(%.20s, %.20s) = %s: %v", pair[0], pair[1], name, problems)
		}
		if other, taken := names[name]; taken {
			t.Errorf("%v has the same name as %s: %s", pair, other, name)
		}
		names[name] = strings.Join(pair[:], "/")
	}
}

func TestDigestOf(t *testing.T) {
	digest := func(values ...any) string {
		t.Helper()
		d, err := DigestOf(values...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if first, second := digest("a", "b"), digest("a", "b"); first != second {
		t.Error("equal arguments have different digests")
	}
	if digest("a", "b") == digest("ab") || digest("a", "b") == digest("b", "a") {
		t.Error("different arguments have equal digests")
	}
	if _, err := DigestOf(func() {}); err == nil {
		t.Error("a value without a JSON form has a digest")
	}
}
