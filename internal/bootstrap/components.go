// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/config"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/kustomize"
)

// Parts of an installation. The names are the same as in package config.
const (
	// Namespace is the namespace of the provider.
	Namespace = "helmop-system"
	// Deployment is the name of the manager's Deployment.
	Deployment = "helmop-controller-manager"
	// ServiceAccount is impersonated by the manager when it installs in the management cluster.
	ServiceAccount = "helmop-management"
	// ComponentsFile is the name of the file with the components, in the artifact and next to the user's kustomization.
	ComponentsFile = "helmop-components.yaml"

	// imageName is the manager's image in the manifests.
	imageName = "ghcr.io/helmop/cluster-api-helmop-controller"
	// kustomizationFile is the file name of a kustomization.
	kustomizationFile = "kustomization.yaml"
)

// ErrInvalid is wrapped by errors about invalid input of the user.
var ErrInvalid = errors.New("invalid input")

// Options configure the components.
type Options struct {
	// Version is the version of the manager and the default tag of its image.
	Version string
	// Image is the manager's image, with an optional tag or digest. Default: the project's image with the tag Version.
	Image string
	// Variable returns the value of a variable, and false if it is not set. Unset variables have their defaults.
	Variable func(name string) (string, bool)
	// Kustomization holds the files of the user's kustomization folder by name; nil without one. The package adds the
	// components to the folder as ComponentsFile. If the resources of the kustomization do not name this file, the
	// package adds it to the resources.
	Kustomization map[string][]byte
}

// Components returns the objects of the provider in the order in which they are applied, without the metadata that Own
// adds.
func Components(options Options) ([]*unstructured.Unstructured, error) {
	files, err := embedded(options.Variable)
	if err != nil {
		return nil, err
	}
	top, err := overlay(options)
	if err != nil {
		return nil, err
	}
	files["image/"+kustomizationFile] = top
	objects, err := build(files, "image")
	if err != nil {
		return nil, err
	}
	if options.Kustomization != nil {
		if objects, err = kustomized(options.Kustomization, objects); err != nil {
			return nil, fmt.Errorf("building the kustomization: %w", err)
		}
	}
	inOrder(objects)
	return objects, check(objects)
}

// variable matches a variable of the manifests, with its default.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+):=([^}]*)\}`)

// embedded returns the manifests of this version. Variables are replaced as clusterctl replaces them.
func embedded(value func(string) (string, bool)) (map[string][]byte, error) {
	files := map[string][]byte{}
	return files, fs.WalkDir(config.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := config.Files.ReadFile(name)
		if err != nil {
			return err
		}
		files[name] = variable.ReplaceAllFunc(data, func(found []byte) []byte {
			parts := variable.FindSubmatch(found)
			if set, ok := value(string(parts[1])); ok && set != "" {
				return []byte(set)
			}
			return parts[2]
		})
		return nil
	})
}

// overlay returns a kustomization that sets the image.
func overlay(options Options) ([]byte, error) {
	image := map[string]any{"name": imageName, "newTag": options.Version}
	if options.Image != "" {
		name, digest, pinned := strings.Cut(options.Image, "@")
		tag := ""
		if colon := strings.LastIndex(name, ":"); colon > strings.LastIndex(name, "/") {
			name, tag = name[:colon], name[colon+1:]
		}
		image["newName"] = name
		switch {
		case name == "":
			return nil, fmt.Errorf("%w: %q is not an image reference", ErrInvalid, options.Image)
		case pinned:
			delete(image, "newTag")
			image["digest"] = digest
		case tag != "":
			image["newTag"] = tag
		}
	}
	return yaml.Marshal(map[string]any{"resources": []any{"../" + config.Bootstrap}, "images": []any{image}})
}

// kustomized applies the user's kustomization to the components.
func kustomized(
	folder map[string][]byte,
	components []*unstructured.Unstructured,
) ([]*unstructured.Unstructured, error) {
	files := map[string][]byte{}
	for name, data := range folder {
		files[path.Clean(name)] = data
	}
	text, err := YAML(components)
	if err != nil {
		return nil, err
	}
	if _, taken := files[ComponentsFile]; taken {
		return nil, fmt.Errorf(
			"%w: its folder contains a file %s; rename the file, because the components are added under this name",
			ErrInvalid,
			ComponentsFile,
		)
	}
	files[ComponentsFile] = text
	var content map[string]any
	if err := yaml.Unmarshal(files[kustomizationFile], &content); err != nil || content == nil {
		return nil, fmt.Errorf("%w: it is not a YAML object", ErrInvalid)
	}
	resources, _ := content["resources"].([]any)
	if !slices.ContainsFunc(resources, func(resource any) bool {
		name, _ := resource.(string)
		return path.Clean(name) == ComponentsFile
	}) {
		content["resources"] = append([]any{ComponentsFile}, resources...)
		if files[kustomizationFile], err = yaml.Marshal(content); err != nil {
			return nil, err
		}
	}
	return build(files, "")
}

func build(files map[string][]byte, folder string) ([]*unstructured.Unstructured, error) {
	built, err := kustomize.Build(files, folder, bundle.Limits{})
	if err != nil {
		return nil, err
	}
	objects := make([]*unstructured.Unstructured, 0, len(built))
	for _, one := range built {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(one); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// check returns an error if components lack the objects that HelmOp needs to update itself.
func check(objects []*unstructured.Unstructured) error {
	for _, needed := range []struct{ kind, namespace, name string }{
		{"Namespace", "", Namespace}, {"Deployment", Namespace, Deployment}, {"ServiceAccount", Namespace, ServiceAccount},
		{"CustomResourceDefinition", "", "helmops.addons.cluster.x-k8s.io"},
	} {
		if !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == needed.kind && o.GetNamespace() == needed.namespace && o.GetName() == needed.name
		}) {
			return fmt.Errorf(
				"%w: HelmOp needs %s %q in namespace %q to update itself; the kustomization must neither remove nor rename it",
				ErrInvalid, needed.kind, needed.name, Namespace)
		}
	}
	return nil
}

// YAML returns objects as one multi-document file.
func YAML(objects []*unstructured.Unstructured) ([]byte, error) {
	var text []byte
	for _, object := range objects {
		one, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		text = append(append(text, "---\n"...), one...)
	}
	return text, nil
}
