// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"fmt"
	"strings"
)

// ValuesSource is the content of one key in a ConfigMap or Secret.
type ValuesSource struct {
	// Origin is the name of the source in errors, for example "Secret cilium-values key values.yaml".
	Origin string

	// Data is a YAML map; with TargetPath, it is any text. It is not a template. The JSON of a source does not contain the
	// data: a Spec may have the same data a thousand times.
	Data []byte `json:"-"`

	// Absent is true if there is no Data: the source is optional, or its override does not apply.
	Absent bool

	// TargetPath is the path at which Data is set as a string, in the syntax of "helm install --set"; or empty.
	TargetPath string

	// Name is a template for the name of the object, which may differ between Clusters; or empty. With a Name, callers
	// pass Origin and Data to RenderWith.
	Name string
}

// OfSpec is the SourceID.Override of the sources in the Spec itself.
const OfSpec = -1

// SourceID identifies a ValuesSource: Spec.ValuesFrom[Index], or Spec.Overrides[Override].ValuesFrom[Index].
type SourceID struct {
	Override, Index int
}

// ClusterSource is the object of one Cluster for a ValuesSource with a Name.
type ClusterSource struct {
	SourceID

	// Name is the name of the object. It is a valid name.
	Name string
}

// Content is the content of a ClusterSource.
type Content struct {
	// Origin is the name of the source in errors.
	Origin string

	// Data has the form of ValuesSource.Data.
	Data []byte
}

// Contents are the contents of a Cluster's ClusterSources. A source without an entry has no values.
type Contents map[SourceID]Content

// Literals returns the text before the first action and after the last action of a template, without surrounding white
// space. All output of the template starts and ends with these texts. isTemplate is false if there is no action.
func Literals(text string, delimiters Delimiters) (before, after string, isTemplate bool) {
	left, right := delimiters.marks()
	before, rest, isTemplate := strings.Cut(text, left)
	if !isTemplate {
		return text, "", false
	}
	if i := strings.LastIndex(rest, right); i >= 0 {
		after = rest[i+len(right):]
	}
	return strings.TrimSpace(before), strings.TrimSpace(after), true
}

// source is a compiled ValuesSource.
type source struct {
	id   SourceID
	at   place
	path valuesPath
	// name is nil if all Clusters share the content.
	name *textTemplate
	// fixed is the content that all Clusters share; nil if there is none.
	fixed *content
}

// content is a document or, for a source with a path, a text.
type content struct {
	document map[string]any
	text     string
	// bytes and nodes are the size with expanded YAML aliases.
	bytes, nodes int
}

// sources compiles a list of sources. The parameter at is the place of the list.
func (c *compiler) sources(list []ValuesSource, at place, override int) ([]source, error) {
	var sources []source
	for i, s := range list {
		compiled := source{id: SourceID{Override: override, Index: i}}
		compiled.at = place{field: fmt.Sprintf("%s[%d]", at.field, i), origin: at.origin}
		below := func(field string) place { return place{field: compiled.at.field + "." + field, origin: at.origin} }
		var err error
		if compiled.path, err = parsePath(s.TargetPath); err != nil {
			return nil, below("targetPath").at(err, ReasonInvalidTemplate)
		}
		switch {
		case s.Name != "":
			if compiled.name, err = c.template(s.Name, below("name"), textMode); err != nil {
				return nil, err
			}
		case s.Absent:
			continue
		default:
			if compiled.fixed, err = compiled.read(s.Origin, s.Data); err != nil {
				return nil, err
			}
			c.sourceBytes += max(len(s.Data), compiled.fixed.bytes)
			c.sourceNodes += compiled.fixed.nodes
			switch {
			case c.sourceBytes > MaxSourceBytes:
				return nil, TooManyBytes(compiled.at.field, MaxSourceBytes)
			case c.sourceNodes > maxSourceNodes:
				return nil, compiled.at.errorf(ReasonLimitExceeded, 0, "has, with the sources before it, more than %d values",
					maxSourceNodes)
			}
		}
		sources = append(sources, compiled)
	}
	return sources, nil
}

// TooManyBytes returns the error for a values source in a field that is, together with the sources before it, larger
// than a limit.
func TooManyBytes(field string, limit int) *Error {
	return place{field: field}.errorf(ReasonLimitExceeded, 0, "is, with the sources before it, larger than %d bytes",
		limit)
}

// read parses the data of a source.
func (s *source) read(origin string, data []byte) (*content, error) {
	at := s.at
	at.origin = origin
	var err error
	var read content
	if s.path == nil {
		var reader yamlReader
		read.document, err = reader.readMap(string(data))
		read.bytes, read.nodes = reader.bytes, reader.nodes
	} else {
		read.text, read.bytes, read.nodes = string(data), len(data), 1+s.path.filled()
		_, err = new(canonicalizer).text(read.text)
	}
	if err != nil {
		return nil, at.at(err, ReasonInvalidValues)
	}
	return &read, nil
}

// foldBase merges the first sources once for all Clusters, up to the first source with a Name.
func (p *Program) foldBase() {
	rest := p.own.sources
	for len(rest) > 0 && rest[0].name == nil {
		p.base = rest[0].lay(p.base, rest[0].fixed)
		rest = rest[1:]
	}
	p.own.sources = rest
}

// over merges a source over values, and returns the result. It changes values.
func (s *source) over(values map[string]any, r *run, contents Contents) (map[string]any, error) {
	if s.name != nil {
		given, ok := contents[s.id]
		if !ok {
			return values, nil
		}
		if err := s.spend(r, len(given.Data)); err != nil {
			return nil, err
		}
		read, err := s.read(given.Origin, given.Data)
		if err != nil {
			return nil, err
		}
		// A short text with YAML aliases may have many values.
		if err := s.spend(r, max(0, read.bytes+read.nodes*costNode-len(given.Data))); err != nil {
			return nil, err
		}
		return s.lay(values, read), nil
	}
	fixed := *s.fixed
	if fixed.document != nil {
		// The document is copied, because the values then contain parts of it.
		document, err := canonical(fixed.document)
		if err != nil {
			return nil, s.at.at(err, ReasonInvalidValues)
		}
		fixed.document = document.(map[string]any) // a copy of a map
	}
	return s.lay(values, &fixed), nil
}

// spend charges a rendering for the source.
func (s *source) spend(r *run, cost int) error {
	err := r.spend(cost)
	if err == nil || r.ctx.Err() != nil {
		return err
	}
	return s.at.at(err, ReasonLimitExceeded)
}

// lay merges content over values, and returns the result. It changes values, which then contain parts of the content.
func (s *source) lay(values map[string]any, c *content) map[string]any {
	if s.path == nil {
		return merge(values, c.document)
	}
	return s.path.set(values, c.text).(map[string]any) // A path begins with a key.
}

// ClusterSources returns the objects for the ValuesSources with a Name, for one Cluster and with the overrides at these
// indices. The result depends only on the objects and the overrides. Its errors have the type *Error or come from ctx.
func (p *Program) ClusterSources(ctx context.Context, objects Objects, overrides ...int) ([]ClusterSource, error) {
	var named []*source
	for _, l := range p.applied(overrides) {
		for i := range l.sources {
			if l.sources[i].name != nil {
				named = append(named, &l.sources[i])
			}
		}
	}
	if len(named) == 0 {
		return nil, nil
	}
	r, _, err := p.begin(ctx, objects)
	if err != nil {
		return nil, err
	}
	sources := make([]ClusterSource, 0, len(named))
	for _, s := range named {
		name, err := s.name.renderText(r)
		if err != nil {
			return nil, err
		}
		if err := objectNameRule.refuse(name); err != nil {
			return nil, s.name.at(err, ReasonInvalidName)
		}
		sources = append(sources, ClusterSource{SourceID: s.id, Name: name})
	}
	return sources, nil
}
