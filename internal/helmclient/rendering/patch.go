// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/api/filters/patchstrategicmerge"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// maxPatchBytes bounds the number of bytes, and of values, of a patch after its aliases are expanded.
	maxPatchBytes = 4 << 20
	// maxPatchCopies bounds the bytes that the copy operations of a JSON patch add to an object, because each operation
	// can double the object. The API server accepts no object of this size.
	maxPatchCopies = 3 << 20
)

// errNoYAML replaces the error of the parser, which may quote the patch. A patch may hold secrets.
var errNoYAML = errors.New("the patch is not valid YAML")

// patch is a JSON patch, or one document of a strategic merge patch.
type patch struct {
	// name identifies the patch in errors.
	name string
	// matcher selects the objects. If it is nil, merge names its object.
	matcher *inventory.Matcher
	// operations is the JSON patch, if merge is nil.
	operations jsonpatch.Patch
	// merge is the strategic merge patch; nil for a JSON patch.
	merge *unstructured.Unstructured
	// document is the patch as JSON.
	document []byte
}

// newPatches compiles the documents of a patch. The names of the results describe the objects that they patch.
func newPatches(p Patch) ([]*patch, error) {
	var matcher *inventory.Matcher
	if p.Target != nil {
		var err error
		if matcher, err = p.Target.Compile(); err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
	}
	var patches []*patch
	for _, text := range separator.Split(p.Patch, -1) {
		document, err := patchToJSON([]byte(text))
		if err != nil {
			return nil, err
		}
		if string(document) == "null" {
			continue
		}
		compiled, err := newPatch(document, matcher)
		if err != nil {
			return nil, err
		}
		if matcher != nil {
			compiled.name = describeTarget(p.Target)
		}
		patches = append(patches, compiled)
	}
	switch {
	case len(patches) == 0:
		return nil, errors.New("the patch is empty")
	case len(patches) > 1 && matcher != nil:
		return nil, errors.New("a patch with a target must be one document")
	}
	return patches, nil
}

// patchToJSON converts a document of a patch to JSON. It returns an error if the document is too large after its
// aliases are expanded, or must not be parsed.
func patchToJSON(text []byte) ([]byte, error) {
	switch err := yamlweight.Check(text, yamlweight.Weight{Bytes: maxPatchBytes, Values: maxPatchBytes}); {
	case errors.Is(err, yamlweight.ErrTooLarge):
		return nil, fmt.Errorf("the patch has more than %d MiB with YAML aliases expanded", maxPatchBytes>>20)
	case errors.Is(err, yamlweight.ErrTag), errors.Is(err, yamlweight.ErrEncoding):
		return nil, fmt.Errorf("the patch cannot be used: %w", err)
	case err != nil:
		return nil, errNoYAML
	}
	document, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, errNoYAML
	}
	return document, nil
}

// newPatch compiles one document of a patch, given as JSON.
func newPatch(document []byte, matcher *inventory.Matcher) (*patch, error) {
	compiled := &patch{matcher: matcher, document: document}
	switch document[0] {
	case '[':
		if matcher == nil {
			return nil, errors.New("a JSON patch needs a target")
		}
		var err error
		if compiled.operations, err = jsonpatch.DecodePatch(document); err != nil {
			return nil,
				errors.New("the list is not a JSON patch: each operation needs op (add, remove, replace, move, copy, test), " +
					"path, and value or from")
		}
		return compiled, nil
	case '{':
		merge := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(document, &merge.Object); err != nil {
			return nil, errors.New("the patch is not an object")
		}
		if matcher == nil && (merge.GetAPIVersion() == "" || merge.GetKind() == "" || merge.GetName() == "") {
			return nil, errors.New("a patch without a target must have apiVersion, kind and metadata.name")
		}
		compiled.merge = merge
		compiled.name = fmt.Sprintf("%s %q of %s", merge.GetKind(), merge.GetName(), merge.GetAPIVersion())
		return compiled, nil
	default:
		return nil, errors.New("the patch is neither an object (strategic merge patch) nor a list (JSON patch)")
	}
}

// describeTarget describes the objects that a patch selects, for errors.
func describeTarget(target *inventory.Selector) string {
	var words []string
	for _, field := range []struct{ name, value string }{
		{"group", target.Group}, {"version", target.Version}, {"kind", target.Kind},
		{"name", target.Name}, {"namespace", target.Namespace},
		{"labelSelector", target.LabelSelector}, {"annotationSelector", target.AnnotationSelector},
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

// matches reports whether the patch selects an object; namespace is the namespace of the object in the cluster.
func (p *patch) matches(object *unstructured.Unstructured, namespace string) bool {
	if p.matcher == nil {
		return object.GetAPIVersion() == p.merge.GetAPIVersion() && object.GetKind() == p.merge.GetKind() &&
			object.GetName() == p.merge.GetName() && (p.merge.GetNamespace() == "" || p.merge.GetNamespace() == namespace)
	}
	if object.GetNamespace() == namespace {
		return p.matcher.Matches(object)
	}
	located := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(),
	}}
	located.SetName(object.GetName())
	located.SetNamespace(namespace)
	located.SetLabels(object.GetLabels())
	located.SetAnnotations(object.GetAnnotations())
	return p.matcher.Matches(located)
}

// apply returns the patched object; nil if the patch deletes the object.
func (p *patch) apply(object map[string]any) (patched map[string]any, err error) {
	defer func() {
		// The libraries panic on some patches.
		if r := recover(); r != nil {
			patched, err = nil, errors.New("the patch does not fit the object")
		}
	}()
	data, err := json.Marshal(object)
	if err != nil {
		return nil, errors.New("the patch cannot be decoded")
	}
	if p.merge != nil {
		data, err = mergeStrategically(data, p.document)
	} else {
		// The filter of kustomize for JSON patches rounds large integers, and does not bound copies.
		options := jsonpatch.NewApplyOptions()
		options.AccumulatedCopySizeLimit = maxPatchCopies
		data, err = p.operations.ApplyWithOptions(data, options)
	}
	if err != nil || data == nil {
		return nil, err
	}
	if err := utiljson.Unmarshal(data, &patched); err != nil {
		return nil, errors.New("the result is not an object")
	}
	if o := (&unstructured.Unstructured{Object: patched}); o.GetAPIVersion() == "" || o.GetKind() == "" {
		return nil, errors.New("the result lacks apiVersion or kind")
	}
	if p.merge != nil {
		keepIdentity(patched, object)
	}
	return patched, nil
}

// mergeStrategically applies a strategic merge patch. It returns nil if the patch deletes the object. It is safe for
// concurrent use: kustomize locks its schemas while it reads them, and never changes them afterwards.
func mergeStrategically(object, change []byte) ([]byte, error) {
	into, err := kyaml.Parse(string(object))
	if err != nil {
		return nil, errors.New("the object cannot be encoded")
	}
	from, err := kyaml.Parse(string(change))
	if err != nil {
		return nil, errors.New("the patch cannot be decoded")
	}
	merged, err := patchstrategicmerge.Filter{Patch: from}.Filter([]*kyaml.RNode{into})
	if err != nil {
		return nil, errors.New("the patch does not fit the object")
	}
	if len(merged) == 0 || merged[0].IsNilOrEmpty() {
		return nil, nil
	}
	return merged[0].MarshalJSON()
}

// keepIdentity undoes changes of the kind, the name and the namespace. In a strategic merge patch with a target, these
// fields may name another object.
func keepIdentity(patched, object map[string]any) {
	for _, field := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}} {
		value, ok, _ := unstructured.NestedString(object, field...)
		if !ok {
			unstructured.RemoveNestedField(patched, field...)
			continue
		}
		// If metadata is not a map, Helm rejects the object.
		_ = unstructured.SetNestedField(patched, value, field...)
	}
}
