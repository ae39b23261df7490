// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package packaging checks the files from which HelmOp is built and installed, against the contracts of clusterctl,
// Cluster API's Tiltfile and Docker.
package packaging

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	// root is the repository's, seen from this package.
	root = "../.."

	// commandTimeout includes the time of the go command to build kustomize.
	commandTimeout = 5 * time.Minute
)

// variable matches the only permitted form of clusterctl variables: with a default, so that users need not set them.
var variable = regexp.MustCompile(`\$\{(HELMOP_[A-Z_]+):=([^{}]+)\}`)

// components returns the output of config/default, built once for all tests.
var components = sync.OnceValues(func() (string, error) {
	return command("go", "tool", "-modfile=hack/tools/codegen/go.mod", "kustomize", "build", "config/default")
})

// command runs a program in the repository's root and returns its output.
func command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = errors.Join(err, errors.New(string(exit.Stderr)))
	}
	return string(out), err
}

// objects returns the components with each variable replaced by its default, as clusterctl does.
func objects(t *testing.T) []unstructured.Unstructured {
	t.Helper()
	text, err := components()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, variable.ReplaceAllString(text, "$2"))
}

func parse(t *testing.T, text string) []unstructured.Unstructured {
	t.Helper()
	var objs []unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var obj unstructured.Unstructured
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objs
		}
		if err != nil {
			t.Fatal(err)
		}
		objs = append(objs, obj)
	}
}

func ofKind(objs []unstructured.Unstructured, kind string) []unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(objs), func(o unstructured.Unstructured) bool { return o.GetKind() != kind })
}

// convert converts an object strictly: an unknown field is an error.
func convert[T any](t *testing.T, obj unstructured.Unstructured) *T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &typed, true); err != nil {
		t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	return &typed
}

// deployment returns the only Deployment and its only container.
func deployment(t *testing.T) (*appsv1.Deployment, corev1.Container) {
	t.Helper()
	found := ofKind(objects(t), "Deployment")
	if len(found) != 1 {
		t.Fatalf("%d Deployments, want 1", len(found))
	}
	d := convert[appsv1.Deployment](t, found[0])
	if n := len(d.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers, want 1", n)
	}
	container := d.Spec.Template.Spec.Containers[0]
	for i := range container.Args {
		container.Args[i] = expand(container.Args[i], container.Env)
	}
	return d, container
}

// expand replaces $(NAME) by the value of an environment variable, as the kubelet does.
func expand(text string, env []corev1.EnvVar) string {
	for _, variable := range env {
		text = strings.ReplaceAll(text, "$("+variable.Name+")", variable.Value)
	}
	return text
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// managerSources returns the folders, relative to the root, of the packages of this module that the manager imports.
func managerSources(t *testing.T) []string {
	t.Helper()
	const format = "{{if .Module}}{{if .Module.Main}}{{.ImportPath}}{{end}}{{end}}"
	out, err := command("go", "list", "-deps", "-f", format, ".")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range bytes.Lines([]byte(out)) {
		if path := strings.TrimSpace(string(line)); path != "" {
			folders = append(folders, strings.TrimPrefix(strings.TrimPrefix(path,
				"github.com/helmop/cluster-api-addon-provider-helmop"), "/"))
		}
	}
	if !slices.Contains(folders, "controllers") {
		t.Fatalf("the manager's packages %v lack the controllers", folders)
	}
	return folders
}

// covered reports whether a folder is one of the paths or below one. The root package is covered by main.go.
func covered(folder string, paths []string) bool {
	if folder == "" {
		return slices.Contains(paths, "main.go")
	}
	return slices.ContainsFunc(paths, func(p string) bool { return folder == p || strings.HasPrefix(folder, p+"/") })
}
