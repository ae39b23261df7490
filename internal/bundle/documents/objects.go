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
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	crdGroup = "apiextensions.k8s.io"
	crdKind  = "CustomResourceDefinition"

	// noValue is a text that Helm removes from everything that it renders.
	noValue = "<no value>"
	// maxActions is the maximum number of template actions in an object that are escaped one by one. A template that is
	// escaped in this way stays readable.
	maxActions = 200
	// objectBytes is the memory, in bytes, of an object without its content: its key, its position and its file.
	objectBytes = 512
	// writtenValue is the memory, in bytes, that an object needs for each value while it is written as YAML, in addition
	// to a parse: the writer keeps an event for each value. It was measured with small maps.
	writtenValue = 700
	// maxWriting is the memory, in bytes, up to which an object is written as readable YAML.
	maxWriting = 8 << 20
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
	memory *unpack.Memory
	// Total is the weight of all texts that were read.
	Total unpack.Weight
	// Objects are the objects in the order in which they were read.
	Objects []*Object
	// seen holds the position of each object.
	seen map[objectKey]string
	// kept is how many bytes the objects count in memory.
	kept int64
}

// NewReader returns a Reader without objects. It reserves memory before it parses a text.
func NewReader(limits unpack.Limits, memory *unpack.Memory) *Reader {
	return &Reader{limits: limits, memory: memory, seen: map[objectKey]string{}}
}

// keep counts n bytes of objects.
func (r *Reader) keep(n int64) {
	r.kept += n
	r.memory.Keep(n)
}

// Drop drops all objects, so that they no longer count in the memory.
func (r *Reader) Drop() {
	r.keep(-r.kept)
	r.Objects, r.seen = nil, map[objectKey]string{}
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
	made := &Object{objectKey: key, Content: escapeJSON(content)}
	r.Objects = append(r.Objects, made)
	r.keep(int64(len(made.Content)) + objectBytes)
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

// writing returns how much memory the object needs while it is written as YAML, in bytes.
func (o *Object) writing() int64 {
	weight := yamlweight.Of(o.Content)
	return weight.ParseCost() + int64(weight.Values)*writtenValue
}

// YAML returns the object as readable YAML. It reserves memory before it writes the object.
func (o *Object) YAML(memory *unpack.Memory) ([]byte, error) {
	if err := memory.Parse(o.writing()); err != nil {
		return nil, err
	}
	out, err := yaml.JSONToYAML(o.Content)
	if err != nil {
		return nil, fmt.Errorf("%w: %s %q cannot be converted to YAML", unpack.ErrInvalidManifests, unpack.Clip(o.kind),
			unpack.Clip(o.name))
	}
	return out, nil
}

// Text returns the object as readable YAML. It returns a large object as JSON: the object would need much more memory
// while it is written as YAML.
func (o *Object) Text(memory *unpack.Memory) ([]byte, error) {
	if o.writing() > maxWriting {
		return o.Content, nil
	}
	return o.YAML(memory)
}

// Literal is [Object.Text] as a template that renders to exactly this object.
func (o *Object) Literal(memory *unpack.Memory) ([]byte, error) {
	isLarge := o.writing() > maxWriting
	var out []byte
	if !isLarge {
		var err error
		if out, err = o.YAML(memory); err != nil {
			return nil, err
		}
	}
	if isLarge || bytes.Contains(out, []byte(noValue)) || bytes.Count(out, []byte("{{")) > maxActions {
		// The JSON contains no template actions and no noValue: braces and "<" are escaped. Two adjacent braces occur
		// only in strings.
		return bytes.ReplaceAll(o.Content, []byte("{{"), []byte(`\u007b\u007b`)), nil
	}
	return bytes.ReplaceAll(out, []byte("{{"), []byte("{{`{{`}}")), nil
}
