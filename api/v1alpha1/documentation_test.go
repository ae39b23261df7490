// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// otherFragments are top-level YAML keys in the documentation that belong neither to an object nor to a HelmOp's spec.
var otherFragments = map[string]bool{"status": true, "metadata": true, "provider_repos": true, "patches": true,
	"resources": true}

// yamlBlock is a fenced block of YAML in Markdown. In a list, it is indented.
var yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")

// TestDocumentation applies all YAML of the documentation and of the examples to an API server in a dry run. It applies
// whole objects unchanged, and a fragment of a spec as part of a valid HelmOp. An unknown field is an error.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c = client.NewDryRunClient(client.WithFieldValidation(c, metav1.FieldValidationStrict))
	root := filepath.Join("..", "..")
	for _, file := range documented(t, root) {
		t.Run(strings.TrimPrefix(file, root+string(filepath.Separator)), func(t *testing.T) {
			for _, document := range yamlOf(t, file) {
				if obj := documentedObject(t, document); obj != nil {
					if err := c.Create(t.Context(), obj); err != nil {
						t.Errorf("the API server refuses this: %v\n%s", err, document)
					}
				}
			}
		})
	}
}

// documented lists the files of the documentation and of the examples.
func documented(t *testing.T, root string) []string {
	t.Helper()
	files := []string{filepath.Join(root, "README.md")}
	for _, pattern := range []string{"docs/*.md", "docs/reference/*.md", "examples/*.yaml",
		"examples/features/*.yaml"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no %s (%v)", pattern, err)
		}
		files = append(files, found...)
	}
	return files
}

// yamlOf returns the YAML documents of a file.
func yamlOf(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := [][]byte{data}
	if filepath.Ext(file) == ".md" {
		blocks = nil
		for _, match := range yamlBlock.FindAllSubmatch(data, -1) {
			blocks = append(blocks, regexp.MustCompile("(?m)^"+string(match[1])).ReplaceAll(match[2], nil))
		}
	}
	var documents [][]byte
	for _, block := range blocks {
		reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(block)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, block)
			}
			documents = append(documents, document)
		}
	}
	return documents
}

// documentedObject returns the object to apply for a document, or nil for a fragment of another kind of object.
func documentedObject(t *testing.T, document []byte) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.UnmarshalStrict(document, &content); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
	obj := &unstructured.Unstructured{Object: content}
	if obj.GetAPIVersion() != "" {
		// The API server has no other namespace.
		if obj.GetNamespace() != "" {
			obj.SetNamespace(metav1.NamespaceDefault)
		}
		return obj
	}
	for key := range content {
		if otherFragments[key] {
			return nil
		}
	}
	if spec, ok := content["spec"].(map[string]any); ok && len(content) == 1 {
		content = spec
	}
	obj = decode(t, validHelmOp)
	spec := obj.Object["spec"].(map[string]any)
	for key, value := range content {
		before, isMap := spec[key].(map[string]any)
		after, staysMap := value.(map[string]any)
		if !isMap || !staysMap {
			spec[key] = value
			continue
		}
		for field, part := range after {
			before[field] = part
		}
	}
	return obj
}
