// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"context"

	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/postrender"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// Renderer renders charts in tasks. It is safe for concurrent use.
type Renderer struct{ runner sandbox.Runner }

// NewRenderer returns a Renderer whose tasks a runner does; it must know [Tasks].
func NewRenderer(runner sandbox.Runner) *Renderer { return &Renderer{runner: runner} }

// Source is what is rendered. It is read only.
type Source struct {
	// Chart is the chart as it was loaded: its dependencies are not processed.
	Chart *chart.Chart
	// Values are those of the release.
	Values map[string]any
	// Tenant is whom the work is for.
	Tenant string
}

// CheckChart checks that a chart can be installed, whatever the values are.
func CheckChart(chrt *chart.Chart) error {
	if chrt == nil || chrt.Metadata == nil {
		return Errorf(ErrInvalidChart, "there is no chart")
	}
	// Validating sanitises the metadata in place.
	metadata := CopyMetadata(chrt.Metadata)
	if err := metadata.Validate(); err != nil {
		return Errorf(ErrInvalidChart, "%s", err)
	}
	if metadata.Type != "" && metadata.Type != "application" {
		return Errorf(ErrInvalidChart, "a chart of type %q cannot be installed", metadata.Type)
	}
	if err := action.CheckDependencies(chrt, metadata.Dependencies); err != nil {
		return Errorf(ErrInvalidChart, "%s", err)
	}
	return nil
}

// CheckValues compares the values with the schemas of the chart and of its dependencies.
func (r *Renderer) CheckValues(ctx context.Context, source Source) error {
	if !hasSchema(source.Chart) {
		return nil
	}
	var result checkResult
	if err := r.run(ctx, taskCheck, source, checkRequest{Values: source.Values}, nil, &result); err != nil {
		return err
	}
	return result.Failure.err()
}

// CRDs returns the files in the folders crds of a chart and of those of its dependencies that the values enable, in the order of Helm.
func (r *Renderer) CRDs(ctx context.Context, source Source) ([]chart.CRD, error) {
	found := source.Chart.CRDObjects()
	if len(found) == 0 || len(source.Chart.Dependencies()) == 0 {
		return found, nil
	}
	var result crdsResult
	if err := r.run(ctx, taskCRDs, source, checkRequest{Values: source.Values}, nil, &result); err != nil {
		return nil, err
	}
	found = nil
	for _, one := range result.CRDs {
		found = append(found, chart.CRD{Name: one.Name, Filename: one.Filename, File: &chart.File{Name: one.Name, Data: one.Data}})
	}
	return found, result.Failure.err()
}

// Options say what a chart is rendered for.
type Options struct {
	// Release is what templates see as .Release.
	Release chartutil.ReleaseOptions
	// Capabilities are what templates see as .Capabilities.
	Capabilities *chartutil.Capabilities
	// Lookup answers what the chart looks up. Nil finds nothing.
	Lookup LookupFunc
}

// Rendered is a chart that was rendered.
type Rendered struct {
	// Literal is a chart that Helm renders to the same files, whatever the values are: its templates are texts, and it has no dependencies.
	// It is the caller's to change.
	Literal *chart.Chart
	// Recorded is the chart as Helm records it: that which was rendered, after its dependencies were processed.
	Recorded *chart.Chart
}

// Render renders a chart. Errors of its templates are those of Helm.
func (r *Renderer) Render(ctx context.Context, source Source, options Options) (*Rendered, error) {
	request := renderRequest{Values: source.Values, Release: options.Release, Capabilities: *options.Capabilities, Lookups: options.Lookup != nil}
	answers := &lookupAnswers{lookup: options.Lookup}
	var result renderResult
	if err := r.run(ctx, taskRender, source, request, answers.answer, &result); err != nil {
		return nil, err
	}
	if err := result.Failure.err(); err != nil {
		if answers.failed != nil && strings.Contains(err.Error(), answers.failed.Error()) {
			// The cluster's answer tells more than its text.
			err = &lookupError{text: err.Error(), cause: answers.failed}
		}
		return nil, err
	}
	recorded := CopyChart(source.Chart)
	if result.IsProcessed {
		recorded.Metadata.Dependencies, recorded.Values = result.Dependencies, result.Values
	}
	return &Rendered{Literal: literalChart(source.Chart.Metadata, result.Files), Recorded: recorded}, nil
}

// lookupError is the error of a template whose lookup failed.
type lookupError struct {
	text  string
	cause error
}

func (e *lookupError) Error() string { return e.text }
func (e *lookupError) Unwrap() error { return e.cause }

// literalChart returns a chart whose templates are texts.
func literalChart(metadata *chart.Metadata, files []renderedFile) *chart.Chart {
	literal := &chart.Chart{Metadata: CopyMetadata(metadata)}
	literal.Metadata.Dependencies = nil
	for _, file := range files {
		name := strings.TrimPrefix(file.Name, metadata.Name+"/")
		literal.Templates = append(literal.Templates, &chart.File{Name: name, Data: literalText(file.Text)})
	}
	return literal
}

// literalText returns the template that yields a text.
func literalText(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("{{"), []byte(`{{"{{"}}`))
}

// PostRenderer returns what changes rendered manifests for a release in a namespace. It returns nil if there is nothing to change.
func (r *Renderer) PostRenderer(ctx context.Context, changes *PostRender, namespace, tenant string) (postrender.PostRenderer, error) {
	// What is wrong with the patches themselves is told before anything is begun.
	compiled, err := newPostRenderer(changes, namespace)
	if err != nil || compiled == nil {
		return nil, err
	}
	return &remotePostRenderer{ctx: ctx, renderer: r, changes: changes, namespace: namespace, tenant: tenant}, nil
}

// remotePostRenderer has a task change manifests.
type remotePostRenderer struct {
	ctx               context.Context
	renderer          *Renderer
	changes           *PostRender
	namespace, tenant string
}

// Run implements postrender.PostRenderer.
func (p *remotePostRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	request := postRenderRequest{PostRender: *p.changes, Namespace: p.namespace, Manifest: rendered.Bytes()}
	var result postRenderResult
	if err := p.renderer.run(p.ctx, taskPostRender, Source{Tenant: p.tenant}, request, nil, &result); err != nil {
		return nil, err
	}
	if err := result.Failure.err(); err != nil {
		return nil, err
	}
	return bytes.NewBuffer(result.Manifest), nil
}

// run has a task done.
func (r *Renderer) run(ctx context.Context, task string, source Source, request any,
	answer func(context.Context, []byte) ([]byte, error), result any,
) error {
	input, err := encode(request)
	if err != nil {
		return err
	}
	todo := sandbox.Request{Task: task, Tenant: source.Tenant, Input: input, Answer: answer}
	if source.Chart != nil {
		key, err := keyOf(source.Chart)
		if err != nil {
			return err
		}
		todo.Shared = &sandbox.Shared{Key: key, Data: func() ([]byte, error) { return encode(toWire(source.Chart)) }}
	}
	output, err := r.runner.Run(ctx, todo)
	if err != nil {
		return limitError(err)
	}
	return decode(output, result)
}

func hasSchema(chrt *chart.Chart) bool {
	return len(chrt.Schema) > 0 || slices.ContainsFunc(chrt.Dependencies(), hasSchema)
}
