// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/inventory"
)

// PostRender changes what a chart rendered, as kustomize does. Hooks and the folder crds are not changed.
type PostRender struct {
	// Patches are applied in their order.
	Patches []Patch
	// Images replace names, tags and digests of container images.
	Images []ImageOverride
	// Labels and Annotations are for all objects; selectors are not changed.
	Labels, Annotations map[string]string
}

// Patch is a strategic merge patch or a JSON patch, as YAML or JSON.
type Patch struct {
	Patch string
	// Target chooses the objects. Nil means the one that the patch names.
	Target *inventory.Selector
}

// ImageOverride replaces parts of the reference of the image Name; what is empty stays.
type ImageOverride struct {
	Name, NewName, NewTag, Digest string
}

// postRenderer changes what a chart rendered. It knows patches, images and metadata only: no file, address or program can be
// reached from what it is given. Objects that nothing changes stay as they were rendered, to the letter, and their order
// stays. It is safe for concurrent use.
type postRenderer struct {
	namespace           string
	patches             []*patch
	images              []imageOverride
	labels, annotations map[string]string
}

// newPostRenderer checks what is to be changed and returns what changes it; nil where there is nothing to change. The
// namespace is the release's, where objects that name none are going to be.
func newPostRenderer(p *PostRender, namespace string) (*postRenderer, error) {
	if p == nil || len(p.Patches)+len(p.Images)+len(p.Labels)+len(p.Annotations) == 0 {
		return nil, nil
	}
	r := &postRenderer{namespace: namespace, labels: p.Labels, annotations: p.Annotations}
	for i := range p.Patches {
		compiled, err := newPatch(p.Patches[i])
		if err != nil {
			return nil, Errorf(ErrPostRender, "patch %d: %s", i+1, err)
		}
		r.patches = append(r.patches, compiled)
	}
	for _, image := range p.Images {
		r.images = append(r.images, newImageOverride(image))
	}
	return r, nil
}

// renderedObject is an object on its way through the patches.
type renderedObject struct {
	*unstructured.Unstructured
	// text is what the chart rendered; it counts as long as nothing changed.
	text    []byte
	changed bool
}

// Run changes what a chart rendered.
func (r *postRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	objects, err := splitRendered(rendered.Bytes())
	if err != nil {
		return nil, Errorf(ErrPostRender, "what the chart rendered cannot be read: %s", err)
	}
	for i, patch := range r.patches {
		if objects, err = r.applyPatch(patch, objects); err != nil {
			return nil, Errorf(ErrPostRender, "patch %d (%s): %s", i+1, patch, err)
		}
	}
	for _, object := range objects {
		if err := r.setMetadata(object); err != nil {
			return nil, Errorf(ErrPostRender, "%s %q: %s", object.GetKind(), object.GetName(), err)
		}
		if object.GetKind() == "CustomResourceDefinition" {
			continue
		}
		for _, image := range r.images {
			if image.apply(object.Object) {
				object.changed = true
			}
		}
	}
	return joinRendered(objects)
}

// applyPatch applies a patch to the objects that it is for. That there are none is an error: such a patch is out of date.
func (r *postRenderer) applyPatch(p *patch, objects []*renderedObject) ([]*renderedObject, error) {
	kept := make([]*renderedObject, 0, len(objects))
	applied := make([]bool, len(p.parts))
	for _, object := range objects {
		deleted := false
		for i, part := range p.parts {
			if deleted || !part.isFor(object.Unstructured, r.namespaceOf(object.Unstructured)) {
				continue
			}
			applied[i] = true
			patched, err := part.apply(object.Object)
			if err != nil {
				return nil, fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
			}
			object.changed, deleted = true, patched == nil
			if !deleted {
				object.Unstructured = &unstructured.Unstructured{Object: patched}
			}
		}
		if !deleted {
			kept = append(kept, object)
		}
	}
	for i, part := range p.parts {
		if !applied[i] {
			return nil, fmt.Errorf("it matches no object%s", part.hint())
		}
	}
	return kept, nil
}

// namespaceOf returns the namespace where an object is going to be. Kinds that are not known have one.
func (r *postRenderer) namespaceOf(object *unstructured.Unstructured) string {
	if namespace := object.GetNamespace(); namespace != "" {
		return namespace
	}
	kind := object.GroupVersionKind()
	if (resid.Gvk{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}).IsClusterScoped() {
		return ""
	}
	return r.namespace
}

func (r *postRenderer) setMetadata(object *renderedObject) error {
	for field, values := range map[string]map[string]string{"labels": r.labels, "annotations": r.annotations} {
		if len(values) == 0 {
			continue
		}
		// A chart may render the field without a value: found is nil then.
		found, _, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", field)
		entries, isMap := found.(map[string]any)
		if err != nil || found != nil && !isMap {
			return fmt.Errorf("its %s are no map", field)
		}
		if entries == nil {
			entries = map[string]any{}
		}
		for key, value := range values {
			entries[key] = value
		}
		if err := unstructured.SetNestedMap(object.Object, entries, "metadata", field); err != nil {
			return fmt.Errorf("its metadata is no map")
		}
		object.changed = true
	}
	return nil
}

// imageOverride replaces parts of the references of an image.
type imageOverride struct {
	ImageOverride
	// reference matches the image with tag and digest, which are its groups.
	reference *regexp.Regexp
}

func newImageOverride(image ImageOverride) imageOverride {
	reference := regexp.MustCompile(`^` + regexp.QuoteMeta(image.Name) + `(:[\w.{}-]*)?(@[\w.:+-]*)?$`)
	return imageOverride{ImageOverride: image, reference: reference}
}

// apply replaces the image in all lists of containers below a value; changed says whether it is anywhere.
func (i imageOverride) apply(value any) (changed bool) {
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

func (i imageOverride) applyToContainers(value any) (changed bool) {
	containers, _ := value.([]any)
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		image, ok := fields["image"].(string)
		if !ok {
			continue
		}
		if replaced, ok := i.replace(image); ok && replaced != image {
			fields["image"] = replaced
			changed = true
		}
	}
	return changed
}

// replace returns the reference with its parts replaced; ok is false where it is another image's.
func (i imageOverride) replace(image string) (replaced string, ok bool) {
	parts := i.reference.FindStringSubmatch(image)
	if parts == nil {
		return "", false
	}
	name, tag, digest := i.Name, parts[1], parts[2]
	if i.NewName != "" {
		name = i.NewName
	}
	if i.NewTag != "" || i.Digest != "" {
		tag, digest = "", ""
	}
	if i.NewTag != "" {
		tag = ":" + i.NewTag
	}
	if i.Digest != "" {
		digest = "@" + i.Digest
	}
	return name + tag + digest, true
}

// separator begins a document.
var separator = regexp.MustCompile(`(?m)^---[ \t]*(?:#.*)?\r?$`)

// splitRendered returns the objects in a rendered manifest, those in lists one by one.
func splitRendered(manifest []byte) ([]*renderedObject, error) {
	var objects []*renderedObject
	for start := 0; start < len(manifest); {
		document, next := manifest[start:], len(manifest)
		if at := separator.FindIndex(document); at != nil {
			document, next = document[:at[0]], start+at[1]
		}
		start = next
		object := &renderedObject{Unstructured: &unstructured.Unstructured{}, text: bytes.TrimSpace(document)}
		if err := unmarshalObject(document, &object.Object); err != nil {
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
				return nil, fmt.Errorf("an item of a %s is no object", object.GetKind())
			}
			comments := leadingComments(object.text)
			objects = append(objects, &renderedObject{Unstructured: &unstructured.Unstructured{Object: fields}, text: comments, changed: true})
		}
	}
	return objects, nil
}

// unmarshalObject reads YAML into what JSON has: no other types of numbers and keys.
func unmarshalObject(document []byte, object *map[string]any) error {
	data, err := yaml.YAMLToJSON(document)
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(data, object)
}

func joinRendered(objects []*renderedObject) (*bytes.Buffer, error) {
	var joined bytes.Buffer
	for _, object := range objects {
		joined.WriteString("---\n")
		if !object.changed {
			joined.Write(object.text)
			joined.WriteByte('\n')
			continue
		}
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, Errorf(ErrPostRender, "%s %q cannot be written", object.GetKind(), object.GetName())
		}
		if comments := leadingComments(object.text); len(comments) > 0 {
			joined.Write(comments)
			joined.WriteByte('\n')
		}
		joined.Write(data)
	}
	return &joined, nil
}

// leadingComments returns the comments before an object: Helm says there which template it is from.
func leadingComments(text []byte) []byte {
	lines := bytes.Split(text, []byte("\n"))
	end := slices.IndexFunc(lines, func(line []byte) bool { return !bytes.HasPrefix(line, []byte("#")) })
	if end < 0 {
		end = len(lines)
	}
	return bytes.Join(lines[:end], []byte("\n"))
}
