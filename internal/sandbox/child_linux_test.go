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

package sandbox

import (
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func init() {
	testTasks["niceness"] = Task{Run: func(*Work) ([]byte, error) { return threadNiceness() }}
}

// threadNiceness lists the niceness of each thread of this process.
func threadNiceness() ([]byte, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	var list []string
	for _, thread := range threads {
		status, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/stat")
		if err != nil {
			return nil, err
		}
		// The name of the program, in brackets, may have spaces. The niceness is the 17th field after it.
		_, after, _ := strings.Cut(string(status), ") ")
		list = append(list, strings.Fields(after)[16])
	}
	return []byte(strings.Join(list, " ")), nil
}

// TestChildrenStepBack holds that all threads of a child have a lower priority than the parent, where processors are short.
func TestChildrenStepBack(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	own, err := threadNiceness()
	g.Expect(err).NotTo(HaveOccurred())
	var parent int
	_, err = fmt.Sscan(string(own), &parent)
	g.Expect(err).NotTo(HaveOccurred())
	child, err := newTestPool(t, Limits{}).Run(t.Context(), Request{Task: "niceness"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Fields(string(child))).To(HaveEach(fmt.Sprint(min(parent+niceness, 19))))
}
