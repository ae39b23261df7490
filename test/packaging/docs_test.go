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

package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// documentedTest is an end-to-end test in the documentation, with one of its steps or without.
var documentedTest = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)(?:/([^`]+))?`")

// TestDocumentedTestsExist holds that what the documentation names as the proof of a promise is there.
func TestDocumentedTestsExist(t *testing.T) {
	t.Parallel()
	read := func(pattern string) string {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		return all.String()
	}
	tests := read("test/e2e/*_test.go")
	found := documentedTest.FindAllStringSubmatch(read("README.md")+read("docs/*.md"), -1)
	if len(found) == 0 {
		t.Error("the documentation names no test")
	}
	for _, name := range found {
		if !strings.Contains(tests, "\nfunc "+name[1]+"(") || name[2] != "" && !strings.Contains(tests, strconv.Quote(name[2])) {
			t.Errorf("the documentation names %s, which is not in test/e2e", name[0])
		}
	}
}
