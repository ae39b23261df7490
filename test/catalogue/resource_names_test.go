// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"go/ast"
	"regexp"
	"testing"
)

// ambiguous matches a command of kubectl with a resource name that Rancher Fleet has, too.
var ambiguous = regexp.MustCompile(`\b(annotate|delete|edit|label|patch|scale|wait)( --?[a-z=-]+)* helmops?([ /]|$)`)

// TestResourceNamesInMessages checks that commands in messages name resources with their group.
func TestResourceNamesInMessages(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"api", "cmd", "controllers", "internal"} {
		for _, file := range sources(t, folder) {
			ast.Inspect(file, func(node ast.Node) bool {
				if text := literal(node); ambiguous.MatchString(text) {
					t.Errorf("%q: use addonsv1.HelmOpResource, because Rancher Fleet has a kind HelmOp, too", text)
				}
				return true
			})
		}
	}
	for _, text := range []string{"kubectl -n %s annotate helmop ", "kubectl delete --wait helmops/calico"} {
		if !ambiguous.MatchString(text) {
			t.Errorf("%q: the test does not find it", text)
		}
	}
}
