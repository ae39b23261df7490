// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"context"
	"fmt"
	"strings"
)

// ValuesSource is the content of one key of a ConfigMap or Secret.
type ValuesSource struct {
	// Origin is how an error names the source: "Secret cilium-values key values.yaml".
	Origin string

	// Data is a YAML map, or any text with TargetPath. It is not a template.
	Data []byte

	// Absent says that there is no Data: the source is optional, or the caller does not choose its override.
	Absent bool

	// TargetPath is where Data goes as a string, in the syntax of "helm install --set"; or empty.
	TargetPath string

	// Name is a template of the name of the object, which then may be another one for each Cluster; or empty. With a Name,
	// RenderWith is given Origin and Data.
	Name string
}

// OfSpec is SourceID.Override of the sources of the Spec itself.
const OfSpec = -1

// SourceID is the place of a ValuesSource: Spec.ValuesFrom[Index], or Spec.Overrides[Override].ValuesFrom[Index].
type SourceID struct {
	Override, Index int
}

// ClusterSource is the object of one Cluster that a ValuesSource with a Name refers to.
type ClusterSource struct {
	SourceID

	// Name of the object, which is valid.
	Name string
}

// Content is what was read of a ClusterSource.
type Content struct {
	// Origin is how an error names the source.
	Origin string

	// Data is that of ValuesSource.
	Data []byte
}

// Contents are what was read of the ClusterSources of a Cluster. One that is not among them gives no values.
type Contents map[SourceID]Content

// Literals returns the text before the first and after the last action of a template, without white space around them:
// all that the template yields begins and ends so. IsTemplate is false if there is no action.
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
	// name is nil if the content is the same for all Clusters.
	name *textTemplate
	// fixed is that content; nil if there is none.
	fixed *content
}

// content is a document, or a text that has a path.
type content struct {
	document map[string]any
	text     string
}

// sources compiles the sources of a list at a place.
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
			if c.sourceBytes += len(s.Data); c.sourceBytes > maxSourceBytes {
				return nil, compiled.at.errorf(ReasonLimitExceeded, 0, "is, with the sources before it, larger than %d bytes",
					maxSourceBytes)
			}
			if compiled.fixed, err = compiled.read(s.Origin, s.Data); err != nil {
				return nil, err
			}
		}
		sources = append(sources, compiled)
	}
	return sources, nil
}

// read reads the data of a source.
func (s *source) read(origin string, data []byte) (*content, error) {
	at := s.at
	at.origin = origin
	var err error
	var read content
	if s.path == nil {
		read.document, err = readYAMLMap(string(data), nil)
	} else {
		read.text = string(data)
		_, err = new(canonicalizer).text(read.text)
	}
	if err != nil {
		return nil, at.at(err, ReasonInvalidValues)
	}
	return &read, nil
}

// foldBase merges the first sources, once for all Clusters, up to one that is another for each.
func (p *Program) foldBase() {
	rest := p.own.sources
	for len(rest) > 0 && rest[0].name == nil {
		p.base = rest[0].lay(p.base, rest[0].fixed)
		rest = rest[1:]
	}
	p.own.sources = rest
}

// over lays a source over values, and returns the result. The values are changed.
func (s *source) over(values map[string]any, r *run, contents Contents) (map[string]any, error) {
	if s.name != nil {
		given, ok := contents[s.id]
		if !ok {
			return values, nil
		}
		if err := r.spend(len(given.Data)); err != nil {
			if r.ctx.Err() != nil {
				return nil, err
			}
			return nil, s.at.at(err, ReasonLimitExceeded)
		}
		read, err := s.read(given.Origin, given.Data)
		if err != nil {
			return nil, err
		}
		return s.lay(values, read), nil
	}
	fixed := *s.fixed
	if fixed.document != nil {
		// Parts of it become parts of the values.
		document, err := canonical(fixed.document)
		if err != nil {
			return nil, s.at.at(err, ReasonInvalidValues)
		}
		fixed.document = document.(map[string]any) // a copy of a map
	}
	return s.lay(values, &fixed), nil
}

// lay lays a content over values, and returns the result. The values are changed, and take parts of the content.
func (s *source) lay(values map[string]any, c *content) map[string]any {
	if s.path == nil {
		return merge(values, c.document)
	}
	return s.path.set(values, c.text).(map[string]any) // A path begins with a key.
}

// ClusterSources are the objects that the ValuesSources with a Name refer to for one Cluster, with the overrides at
// these indices. They are the same for the same objects and overrides. Its errors are of type *Error, or those of ctx.
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
