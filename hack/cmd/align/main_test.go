/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
		"b": "module b\n\nrequire (\n\tx.org/one v1.10.0\n\tx.org/two v0.0.0\n\tx.org/same v1.0.0\n\tx.org/own v1.0.0\n)\n\nreplace x.org/two => x.org/two v1.1.0\n",
	} {
		file, err := modfile.Parse("go.mod", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		files[dir] = file
	}
	got := fmt.Sprint(compare(files))
	if want := "[a/go.mod: x.org/one v1.2.0, another has v1.10.0 a/go.mod: x.org/two v1.0.0, another has v1.1.0]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
