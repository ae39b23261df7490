// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge2"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// maxPatchCopies bounds what the copy operations of a JSON patch may add to an object: a few of them can double it
// each. No object may be larger than this.
const maxPatchCopies = 3 << 20

// maxPatchBytes bounds a patch whose aliases are replaced by what they stand for.
const maxPatchBytes = 4 << 20

// patch is a patch whose form is known to be right.
type patch struct {
	// target is nil where the patch names its objects.
	target *inventory.Selector
	parts  []patchPart
}

// patchPart is a JSON patch, or one document of a strategic merge patch.
type patchPart struct {
	// matcher chooses the objects; nil where they are the one that merge names.
	matcher *inventory.Matcher
	// operations are those of a JSON patch.
	operations jsonpatch.Patch
	// merge is the document of a strategic merge patch, nil for a JSON patch.
	merge *unstructured.Unstructured
}

func newPatch(p Patch) (*patch, error) {
	compiled := &patch{target: p.Target}
	var matcher *inventory.Matcher
	if p.Target != nil {
		var err error
		if matcher, err = p.Target.Compile(); err != nil {
			return nil, fmt.Errorf("its target: %w", err)
		}
	}
	var documents [][]byte
	for _, document := range separator.Split(p.Patch, -1) {
		if yamlweight.HasAliases([]byte(document)) {
			weight, err := yamlweight.Expanded([]byte(document))
			if err != nil {
				// What is wrong may quote the patch, and that may hold values.
				return nil, errors.New("it is no YAML")
			}
			if weight.Bytes > maxPatchBytes || weight.Values > maxPatchBytes {
				return nil, fmt.Errorf("it has more than %d MiB with aliases replaced by what they stand for", maxPatchBytes>>20)
			}
		}
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			// What is wrong may quote the patch, and that may hold values.
			return nil, errors.New("it is no YAML")
		}
		if !bytes.Equal(data, []byte("null")) {
			documents = append(documents, data)
		}
	}
	for _, document := range documents {
		part, err := newPatchPart(document, matcher)
		if err != nil {
			return nil, err
		}
		compiled.parts = append(compiled.parts, part)
	}
	if len(compiled.parts) == 0 {
		return nil, errors.New("it is empty")
	}
	if len(compiled.parts) > 1 && matcher != nil {
		return nil, errors.New("a patch with a target must be one document")
	}
	return compiled, nil
}

func newPatchPart(document []byte, matcher *inventory.Matcher) (patchPart, error) {
	part := patchPart{matcher: matcher}
	switch document[0] {
	case '[':
		if matcher == nil {
			return part, errors.New("a JSON patch needs a target")
		}
		operations, err := jsonpatch.DecodePatch(document)
		if err != nil {
			return part, errors.New("it is no JSON patch: each operation has op (add, remove, replace, move, copy, test), path, and value or from")
		}
		part.operations = operations
		return part, nil
	case '{':
		part.merge = &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(document, &part.merge.Object); err != nil {
			return part, errors.New("it is no object")
		}
		if matcher == nil && (part.merge.GetAPIVersion() == "" || part.merge.GetKind() == "" || part.merge.GetName() == "") {
			return part, errors.New("without a target it must have apiVersion, kind and metadata.name")
		}
		return part, nil
	default:
		return part, errors.New("it is neither a strategic merge patch, which is an object, nor a JSON patch, which is a list")
	}
}

// String says which objects the patch is for.
func (p *patch) String() string {
	if p.target == nil {
		names := make([]string, 0, len(p.parts))
		for _, part := range p.parts {
			names = append(names, part.merge.GetKind()+" "+part.merge.GetName())
		}
		return strings.Join(names, ", ")
	}
	var words []string
	for _, field := range []struct{ name, value string }{
		{"group", p.target.Group}, {"version", p.target.Version}, {"kind", p.target.Kind}, {"name", p.target.Name},
		{"namespace", p.target.Namespace}, {"labelSelector", p.target.LabelSelector}, {"annotationSelector", p.target.AnnotationSelector},
	} {
		if field.value != "" {
			words = append(words, field.name+" "+field.value)
		}
	}
	if len(words) == 0 {
		return "all objects"
	}
	return strings.Join(words, ", ")
}

// hint adds the name to the complaint that a part matches nothing, where the patch has several.
func (p patchPart) hint() string {
	if p.matcher != nil || p.merge == nil {
		return ""
	}
	return fmt.Sprintf(" (%s %q of %s)", p.merge.GetKind(), p.merge.GetName(), p.merge.GetAPIVersion())
}

// isFor reports whether the part is for an object which is going to be in the given namespace.
func (p patchPart) isFor(object *unstructured.Unstructured, namespace string) bool {
	if p.matcher == nil {
		return object.GetAPIVersion() == p.merge.GetAPIVersion() && object.GetKind() == p.merge.GetKind() &&
			object.GetName() == p.merge.GetName() && (p.merge.GetNamespace() == "" || p.merge.GetNamespace() == namespace)
	}
	if object.GetNamespace() == namespace {
		return p.matcher.Matches(object)
	}
	there := &unstructured.Unstructured{Object: map[string]any{"apiVersion": object.GetAPIVersion(), "kind": object.GetKind()}}
	there.SetName(object.GetName())
	there.SetNamespace(namespace)
	there.SetLabels(object.GetLabels())
	there.SetAnnotations(object.GetAnnotations())
	return p.matcher.Matches(there)
}

// apply returns the patched object, nil where the patch deletes it.
func (p patchPart) apply(object map[string]any) (map[string]any, error) {
	document, err := json.Marshal(object)
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	if p.merge != nil {
		return p.applyMerge(document, object)
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = maxPatchCopies
	patched, err := p.operations.ApplyWithOptions(document, options)
	if err != nil {
		return nil, err
	}
	return objectOf(patched)
}

func objectOf(data []byte) (map[string]any, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(data, &object); err != nil {
		return nil, errors.New("what it makes is no object")
	}
	if o := (&unstructured.Unstructured{Object: object}); o.GetAPIVersion() == "" || o.GetKind() == "" {
		return nil, errors.New("what it makes lacks apiVersion or kind")
	}
	return object, nil
}

func (p patchPart) applyMerge(document []byte, object map[string]any) (patched map[string]any, err error) {
	defer func() {
		if r := recover(); r != nil {
			patched, err = nil, errors.New("it does not fit the object")
		}
	}()
	change, err := json.Marshal(p.merge.Object)
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	merged, err := mergeStrategically(document, change)
	if err != nil || merged == nil {
		return nil, err
	}
	patched, err = objectOf(merged)
	if err != nil {
		return nil, err
	}
	keepIdentity(patched, object)
	return patched, nil
}

// mergeStrategically returns nil where the patch deletes the object. Many may run at a time: the library reads its schemas
// under its own lock when they are first needed, and never changes them unless it is told to, which nothing here does.
func mergeStrategically(document, change []byte) ([]byte, error) {
	into, err := kyaml.Parse(string(document))
	if err != nil {
		return nil, errors.New("the object cannot be read")
	}
	from, err := kyaml.Parse(string(change))
	if err != nil {
		return nil, errors.New("it cannot be read")
	}
	merged, err := merge2.Merge(from, into, kyaml.MergeOptions{ListIncreaseDirection: kyaml.MergeOptionsListPrepend})
	if err != nil {
		return nil, errors.New("it does not fit the object")
	}
	if merged.IsNilOrEmpty() {
		return nil, nil
	}
	return merged.MarshalJSON()
}

// keepIdentity holds that a strategic merge patch with a target changes neither kind nor name: both say what it is for.
func keepIdentity(patched, object map[string]any) {
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, ok, _ := unstructured.NestedString(object, field...)
		if !ok {
			unstructured.RemoveNestedField(patched, field...)
			continue
		}
		// A metadata that is no map is refused when the objects are built.
		_ = unstructured.SetNestedField(patched, value, field...)
	}
}
