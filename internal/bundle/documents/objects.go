// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bundle/unpack"
)

const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"

	// noValue is a text that Helm removes from everything that it renders.
	noValue = "<no value>"
	// maxActions is the maximum number of template actions in an object that are escaped one by one. A template that is
	// escaped in this way stays readable.
	maxActions = 200
)

// objectKey identifies an object. It does not contain the version.
type objectKey struct {
	group, kind, namespace, name string
}

// Object is an object of an artifact.
type Object struct {
	objectKey
	// Content is the object as JSON, which is also valid YAML.
	Content []byte
}

// IsCRD reports whether the object is a CustomResourceDefinition.
func (o *Object) IsCRD() bool { return o.group == crdGroup && o.kind == crdKind }

// Reader collects the objects of files.
type Reader struct {
	limits unpack.Limits
	// Total is the weight of all texts that were read.
	Total unpack.Weight
	// Objects are the objects in the order in which they were read.
	Objects []*Object
	// seen holds the position of each object.
	seen map[objectKey]string
}

// NewReader returns a Reader without objects.
func NewReader(limits unpack.Limits) *Reader {
	return &Reader{limits: limits, seen: map[objectKey]string{}}
}

// File adds the objects in a file.
func (r *Reader) File(name string, text []byte) error {
	return r.Documents(name, text, r.Document)
}

// Document adds the objects in a document.
func (r *Reader) Document(where string, content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // as floats, large numbers would lose digits
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("%w: %s cannot be read", unpack.ErrInvalidManifests, where)
	}
	return r.add(where, value, 0)
}

// add adds an object, or the objects of a list.
func (r *Reader) add(where string, value any, depth int) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s %s", unpack.ErrInvalidManifests, where, fmt.Sprintf(format, args...))
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return refuse("is not an object: it has no fields")
	}
	metadata, _ := fields["metadata"].(map[string]any)
	kind, name := text(fields["kind"]), text(metadata["name"])
	version, err := schema.ParseGroupVersion(text(fields["apiVersion"]))
	switch {
	case kind == "":
		return refuse("has no kind")
	case err != nil || version.Empty():
		return refuse("has no valid apiVersion")
	}
	if items, isList := fields["items"].([]any); isList && name == "" && strings.HasSuffix(kind, "List") {
		if depth == unpack.MaxDepth {
			return refuse("has lists in lists, more than %d deep", unpack.MaxDepth)
		}
		for i, item := range items {
			if err := r.add(fmt.Sprintf("%s (item %d)", where, i), item, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case name == "" && text(metadata["generateName"]) != "":
		return refuse("has generateName instead of a name: each upgrade would create another %s; set metadata.name",
			unpack.Clip(kind))
	case name == "":
		return refuse("has no metadata.name, but kind %s", unpack.Clip(kind))
	}
	key := objectKey{group: version.Group, kind: kind, namespace: text(metadata["namespace"]), name: name}
	if before, twice := r.seen[key]; twice {
		return refuse("has %s %q, which is also in %s", unpack.Clip(kind),
			unpack.Clip(strings.TrimPrefix(key.namespace+"/"+name, "/")), before)
	}
	content, err := json.Marshal(fields)
	if err != nil {
		return refuse("cannot be written as JSON")
	}
	r.seen[key] = where
	r.Objects = append(r.Objects, &Object{objectKey: key, Content: escapeJSON(content)})
	return nil
}

// escapeJSON escapes characters that YAML parsers refuse or treat as line breaks. In JSON, these characters occur only
// in strings.
func escapeJSON(text []byte) []byte {
	isOdd := func(r rune) bool { return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if bytes.IndexFunc(text, isOdd) < 0 {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		if isOdd(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

func text(value any) string {
	out, _ := value.(string)
	return out
}

// FileName returns a unique file name for the object in a chart. Objects with the same kind, namespace and name have
// the same file name.
func (o *Object) FileName() string {
	kind := o.kind
	if o.group != "" {
		kind += "." + o.group
	}
	parts := []string{escapeName(kind)}
	if o.namespace != "" {
		parts = append(parts, escapeName(o.namespace))
	}
	return strings.Join(append(parts, escapeName(o.name)), "_") + ".yaml"
}

// escapeName keeps letters, digits, "-" and ".". It replaces each other byte by "~" and two digits.
func escapeName(name string) string {
	var out strings.Builder
	for _, b := range []byte(name) {
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '.':
			out.WriteByte(b)
		default:
			fmt.Fprintf(&out, "~%02x", b)
		}
	}
	return out.String()
}

// YAML returns the object as readable YAML.
func (o *Object) YAML() ([]byte, error) {
	out, err := yaml.JSONToYAML(o.Content)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %q cannot be converted to YAML", unpack.ErrInvalidManifests, unpack.Clip(o.kind),
			unpack.Clip(o.name))
	}
	return out, nil
}

// Literal returns the object as a template that renders to exactly this object.
func (o *Object) Literal() ([]byte, error) {
	out, err := o.YAML()
	if err != nil {
		return nil, err
	}
	if bytes.Contains(out, []byte(noValue)) || bytes.Count(out, []byte("{{")) > maxActions {
		// The JSON contains no template actions and no noValue: braces and "<" are escaped. Two adjacent braces occur
		// only in strings.
		return bytes.ReplaceAll(o.Content, []byte("{{"), []byte(`\u007b\u007b`)), nil
	}
	return bytes.ReplaceAll(out, []byte("{{"), []byte("{{`{{`}}")), nil
}
