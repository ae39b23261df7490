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

package bundle

import "fmt"

// BuildKustomization builds the kustomization in a folder of some files, and returns its objects as JSON, in the order in which
// kustomize yields them. What the kustomizations of artifacts may do, this one may; see the contract of the package.
func BuildKustomization(files map[string][]byte, folder string, limits Limits) (objects [][]byte, err error) {
	// As for artifacts.
	defer func() {
		if caught := recover(); caught != nil {
			objects, err = nil, fmt.Errorf("%w: the kustomization in %s cannot be built", ErrInvalidManifests, folderName(folder))
		}
	}()
	limits = limits.withDefaults()
	r := newReader(limits)
	if err := r.kustomization(newKustomizer(files, limits), folder); err != nil {
		return nil, err
	}
	for _, one := range r.objects {
		objects = append(objects, one.content)
	}
	return objects, nil
}
