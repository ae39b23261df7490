// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"golang.org/x/mod/modfile"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	files := map[string]*modfile.File{}
	for dir, text := range map[string]string{
		"a": "module a\n\nrequire (\n\tx.org/one v1.2.0\n\tx.org/two v1.0.0\n\tx.org/same v1.0.0\n)\n",
		"b": "module b\n\nrequire (\n\tx.org/one v1.10.0\n\tx.org/two v0.0.0\n\tx.org/same v1.0.0\n\tx.org/own " +
			"v1.0.0\n)\n\nreplace x.org/two => x.org/two v1.1.0\n",
	} {
		file, err := modfile.Parse("go.mod", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		files[dir] = file
	}
	got := fmt.Sprint(compare(files))
	want := "[a/go.mod: x.org/one v1.2.0, another has v1.10.0 a/go.mod: x.org/two v1.0.0, another has v1.1.0]"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
