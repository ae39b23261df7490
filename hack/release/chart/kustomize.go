// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// build returns the objects of a folder in config, with components.
func build(config fs.FS, folder string, components ...string) ([]*unstructured.Unstructured, error) {
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(config, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(config, name)
		if err != nil {
			return err
		}
		return files.WriteFile("/config/"+name, data)
	})
	if err != nil {
		return nil, err
	}
	top := map[string]any{"resources": []string{"../config/" + folder}}
	paths := make([]string, len(components))
	for i, component := range components {
		paths[i] = "../config/" + component
	}
	top["components"] = paths
	data, err := yaml.Marshal(top)
	if err != nil {
		return nil, err
	}
	if err := files.WriteFile("/top/kustomization.yaml", data); err != nil {
		return nil, err
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/top")
	if err != nil {
		return nil, fmt.Errorf("build config/%s with %v: %w", folder, components, err)
	}
	var objects []*unstructured.Unstructured
	for _, one := range made.Resources() {
		content, err := one.Map()
		if err != nil {
			return nil, err
		}
		// The content goes through YAML, so that numbers have the types of unstructured objects.
		data, err := yaml.Marshal(content)
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}
