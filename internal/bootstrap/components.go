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
)

// What an installation consists of, by the names that config gives.
const (
	// Namespace is where the provider is.
	Namespace = "helmop-system"
	// Deployment is the one of the manager.
	Deployment = "helmop-controller-manager"
	// ServiceAccount is the one under whose rights the manager installs in the management cluster.
	ServiceAccount = "helmop-management"
	// ComponentsFile is the file of the components in the artifact, and beside the kustomization of the user.
	ComponentsFile = "helmop-components.yaml"

	// imageName is what the manager's image is called before anybody names another.
	imageName = "ghcr.io/helmop/cluster-api-helmop-controller"
	// kustomizationFile is the name of a kustomization.
	kustomizationFile = "kustomization.yaml"
)

// ErrInvalid is wrapped by errors about what the user gave.
var ErrInvalid = errors.New("not possible")

// Options say what the components are to be.
type Options struct {
	// Version is the one of the manager: the tag of its image.
	Version string
	// Image is the manager's image, with or without a tag or a digest. Default: the one of the project, with Version.
	Image string
	// Variable returns a variable of the components, and whether it is set. Those that are not have their defaults.
	Variable func(name string) (string, bool)
	// Kustomization is the folder of the user's kustomization, by the names of its files; nil if there is none. It finds the
	// components as ComponentsFile, which needs not be among its resources.
	Kustomization map[string][]byte
}

// Components returns the objects of the provider, in the order in which they are applied, without the metadata that Own adds.
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
			return nil, fmt.Errorf("the kustomization: %w", err)
		}
	}
	inOrder(objects)
	return objects, check(objects)
}

// variable is how the manifests name one, with its default.
var variable = regexp.MustCompile(`\$\{([A-Z0-9_]+):=([^}]*)\}`)

// embedded are the manifests of this version, with the variables replaced as clusterctl would.
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

// overlay is a kustomization that names the image.
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
			return nil, fmt.Errorf("%w: %q is no image", ErrInvalid, options.Image)
		case pinned:
			delete(image, "newTag")
			image["digest"] = digest
		case tag != "":
			image["newTag"] = tag
		}
	}
	return yaml.Marshal(map[string]any{"resources": []any{"../" + config.Bootstrap}, "images": []any{image}})
}

// kustomized are the objects that the user's kustomization makes of the components.
func kustomized(folder map[string][]byte, components []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	files := map[string][]byte{}
	for name, data := range folder {
		files[path.Clean(name)] = data
	}
	text, err := YAML(components)
	if err != nil {
		return nil, err
	}
	if _, taken := files[ComponentsFile]; taken {
		return nil, fmt.Errorf("%w: there is a file %s beside it, which is the name of the components of this version", ErrInvalid, ComponentsFile)
	}
	files[ComponentsFile] = text
	var content map[string]any
	if err := yaml.Unmarshal(files[kustomizationFile], &content); err != nil || content == nil {
		return nil, fmt.Errorf("%w: it is not YAML with fields", ErrInvalid)
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
	built, err := bundle.BuildKustomization(files, folder, bundle.Limits{})
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

// check refuses components that could not keep themselves in step.
func check(objects []*unstructured.Unstructured) error {
	for _, needed := range []struct{ kind, namespace, name string }{
		{"Namespace", "", Namespace}, {"Deployment", Namespace, Deployment}, {"ServiceAccount", Namespace, ServiceAccount},
		{"CustomResourceDefinition", "", "helmops.addons.cluster.x-k8s.io"},
	} {
		if !slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == needed.kind && o.GetNamespace() == needed.namespace && o.GetName() == needed.name
		}) {
			return fmt.Errorf("%w: without %s %s in %s the provider could not update itself; the kustomization must not take it away or rename it",
				ErrInvalid, needed.kind, needed.name, Namespace)
		}
	}
	return nil
}

// YAML writes objects as one file.
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
