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

package controllers

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestClustersAreConvertedOncePerVersion also holds that one Cluster is never taken for another.
func TestClustersAreConvertedOncePerVersion(t *testing.T) {
	t.Parallel()
	objects := newObjectReader(nil)
	read := func(name, uid, version string, labels map[string]string) string {
		u := newCluster()
		u.SetName(name)
		u.SetUID(types.UID(uid))
		u.SetResourceVersion(version)
		u.SetLabels(labels)
		cluster, err := objects.typed(u)
		if err != nil {
			t.Fatal(err)
		}
		return cluster.Labels["cni"]
	}
	calico, cilium := map[string]string{"cni": "calico"}, map[string]string{"cni": "cilium"}
	for _, step := range []struct {
		about, name, uid, version string
		labels                    map[string]string
		want                      string
	}{
		{"first", "one", "1", "10", calico, "calico"},
		{"unchanged, as far as the version tells", "one", "1", "10", cilium, "calico"},
		{"changed", "one", "1", "11", cilium, "cilium"},
		{"another one of the same version", "two", "2", "11", calico, "calico"},
		{"without a UID", "three", "", "11", calico, "calico"},
		{"another one without a UID", "four", "", "11", cilium, "cilium"},
	} {
		if got := read(step.name, step.uid, step.version, step.labels); got != step.want {
			t.Errorf("%s: the label is %q, want %q", step.about, got, step.want)
		}
	}
}
