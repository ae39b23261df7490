// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// PostRender defines changes of the rendered objects of a chart, as in kustomize. It does not change hooks and the
// folder crds.
type PostRender struct {
	// Patches are applied in this order, before Images, Labels and Annotations.
	Patches []Patch
	// Images replace names, tags and digests of container images.
	Images []ImageOverride
	// Labels and Annotations are added to all objects. They do not change selectors.
	Labels, Annotations map[string]string
}

func (p *PostRender) isEmpty() bool {
	return p == nil || len(p.Patches)+len(p.Images)+len(p.Labels)+len(p.Annotations) == 0
}

// Patch is a strategic merge patch or a JSON patch, as YAML or JSON.
type Patch struct {
	Patch string
	// Target selects the objects. If it is nil, the patch names its object.
	Target *inventory.Selector
}

// ImageOverride replaces parts of the references to the image Name. An empty field keeps that part.
type ImageOverride struct {
	Name, NewName, NewTag, Digest string
}

// postRenderer applies a PostRender to a manifest. It reads no file, sends no request and starts no program, whatever
// the patches contain. It keeps the order of the objects, and the exact text of the objects that it does not change.
type postRenderer struct {
	changes   *PostRender
	patches   []*patch
	namespace string
}

// newPostRenderer compiles p. namespace is the namespace of the release, for objects without a namespace. An error has
// the kind [ErrPostRender].
func newPostRenderer(p *PostRender, namespace string) (*postRenderer, error) {
	r := &postRenderer{changes: p, namespace: namespace}
	for i := range p.Patches {
		patches, err := newPatches(p.Patches[i])
		if err != nil {
			return nil, Errorf(ErrPostRender, "patch %d: %s", i+1, err)
		}
		for _, compiled := range patches {
			compiled.name = fmt.Sprintf("patch %d (%s)", i+1, compiled.name)
		}
		r.patches = append(r.patches, patches...)
	}
	return r, nil
}

// renderedObject is one object of a manifest.
type renderedObject struct {
	*unstructured.Unstructured
	// text is the object as the chart rendered it. If changed is true, only the comments at the start of text are used.
	text string
	// changed means that the object differs from text.
	changed bool
}

// run applies the changes to a manifest. An error has the kind [ErrPostRender].
func (r *postRenderer) run(manifest []byte) ([]byte, error) {
	objects, err := splitManifest(string(manifest))
	if err != nil {
		return nil, Errorf(ErrPostRender, "the rendered manifest cannot be parsed: %s", err)
	}
	for _, patch := range r.patches {
		if objects, err = r.applyPatch(patch, objects); err != nil {
			return nil, Errorf(ErrPostRender, "%s: %s", patch.name, err)
		}
	}
	for _, object := range objects {
		err := object.setMetadata("labels", r.changes.Labels)
		if err == nil {
			err = object.setMetadata("annotations", r.changes.Annotations)
		}
		if err != nil {
			return nil, Errorf(ErrPostRender, "%s %q: %s", object.GetKind(), object.GetName(), err)
		}
		// The schema in a CRD may contain fields named containers.
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		for _, image := range r.changes.Images {
			object.changed = image.apply(object.Object) || object.changed
		}
	}
	return joinManifest(objects)
}

// applyPatch returns the objects after a patch. A patch that matches no object is an error: the chart no longer has the
// object for which the patch was written.
func (r *postRenderer) applyPatch(p *patch, objects []*renderedObject) ([]*renderedObject, error) {
	kept := make([]*renderedObject, 0, len(objects))
	matched := false
	for _, object := range objects {
		if !p.matches(object.Unstructured, r.namespaceOf(object.Unstructured)) {
			kept = append(kept, object)
			continue
		}
		matched = true
		patched, err := p.apply(object.Object)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
		}
		if patched != nil {
			object.Unstructured, object.changed = &unstructured.Unstructured{Object: patched}, true
			kept = append(kept, object)
		}
	}
	if !matched {
		return nil, errors.New("the patch matches no object")
	}
	return kept, nil
}

// namespaceOf returns the namespace by which patches select an object. For an object without a namespace, it is the
// namespace of the release, even if the kind is cluster-scoped: during rendering, the kinds of the cluster are not
// known.
func (r *postRenderer) namespaceOf(object *unstructured.Unstructured) string {
	return cmp.Or(object.GetNamespace(), r.namespace)
}

// setMetadata adds values to a map in the metadata, for example the labels.
func (o *renderedObject) setMetadata(field string, values map[string]string) error {
	if len(values) == 0 {
		return nil
	}
	// A chart may render the field without a value. Then found is nil.
	found, _, err := unstructured.NestedFieldNoCopy(o.Object, "metadata", field)
	entries, isMap := found.(map[string]any)
	if err != nil || found != nil && !isMap {
		return fmt.Errorf("metadata.%s is not a map", field)
	}
	if entries == nil {
		entries = map[string]any{}
	}
	for key, value := range values {
		entries[key] = value
	}
	o.changed = true
	if err := unstructured.SetNestedMap(o.Object, entries, "metadata", field); err != nil {
		return errors.New("metadata is not a map")
	}
	return nil
}

// apply replaces the image in all containers and initContainers in a value, and reports whether it replaced any image.
// HelmOp does not use the image filter of kustomize, because it rejects objects that use these field names for other
// data.
func (i ImageOverride) apply(value any) (changed bool) {
	switch typed := value.(type) {
	case map[string]any:
		for key, child := range typed {
			if key == "containers" || key == "initContainers" {
				changed = i.applyToContainers(child) || changed
			}
			changed = i.apply(child) || changed
		}
	case []any:
		for _, child := range typed {
			changed = i.apply(child) || changed
		}
	}
	return changed
}

// applyToContainers replaces the image in a list of containers, and reports whether it replaced any image.
func (i ImageOverride) applyToContainers(value any) (changed bool) {
	containers, _ := value.([]any)
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		image, ok := fields["image"].(string)
		if replaced := i.replace(image); ok && replaced != image {
			fields["image"] = replaced
			changed = true
		}
	}
	return changed
}

// imageVersion matches the text after the name of an image: a tag, a digest, both or none. Tags of Bazel have braces.
var imageVersion = regexp.MustCompile(`^(:[\w.{}-]*)?(@[\w.:+-]*)?$`)

// replace returns the new reference to the image. It returns a reference to another image unchanged.
func (i ImageOverride) replace(image string) string {
	version, ok := strings.CutPrefix(image, i.Name)
	if !ok || !imageVersion.MatchString(version) {
		return image
	}
	if i.NewTag != "" || i.Digest != "" {
		version = ""
	}
	if i.NewTag != "" {
		version = ":" + i.NewTag
	}
	if i.Digest != "" {
		version += "@" + i.Digest
	}
	return cmp.Or(i.NewName, i.Name) + version
}

// separator is the line between two YAML documents.
var separator = regexp.MustCompile(`(?m)^---[ \t]*(?:#.*)?\r?$`)

// splitManifest returns the objects of a manifest, and the items of a list instead of the list.
func splitManifest(manifest string) ([]*renderedObject, error) {
	var objects []*renderedObject
	for _, document := range separator.Split(manifest, -1) {
		data, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return nil, err
		}
		object := &renderedObject{Unstructured: &unstructured.Unstructured{}, text: strings.TrimSpace(document)}
		// Other decoders turn large integers into floating point numbers.
		if err := utiljson.Unmarshal(data, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		items, ok := object.Object["items"].([]any)
		if !ok || !strings.HasSuffix(object.GetKind(), "List") {
			objects = append(objects, object)
			continue
		}
		for _, item := range items {
			fields, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("an item of a %s is not an object", object.GetKind())
			}
			objects = append(objects, &renderedObject{
				Unstructured: &unstructured.Unstructured{Object: fields}, text: object.text, changed: true,
			})
		}
	}
	return objects, nil
}

// joinManifest returns the manifest of the objects.
func joinManifest(objects []*renderedObject) ([]byte, error) {
	var joined bytes.Buffer
	for _, object := range objects {
		joined.WriteString("---\n")
		if !object.changed {
			joined.WriteString(object.text + "\n")
			continue
		}
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, Errorf(ErrPostRender, "%s %q cannot be encoded", object.GetKind(), object.GetName())
		}
		joined.WriteString(leadingComments(object.text))
		joined.Write(data)
	}
	return joined.Bytes(), nil
}

// leadingComments returns the comments before an object. In these comments, Helm names the template of the object.
func leadingComments(text string) string {
	rest := text
	for strings.HasPrefix(rest, "#") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	return text[:len(text)-len(rest)]
}
