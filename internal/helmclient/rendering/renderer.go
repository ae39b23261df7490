// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/postrender"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

// Renderer renders charts in tasks. It is safe for concurrent use.
type Renderer struct {
	runner   sandbox.Runner
	failures *failures
}

// NewRenderer returns a Renderer that runs its tasks with a runner. The runner must have the [Tasks].
func NewRenderer(runner sandbox.Runner) *Renderer {
	return &Renderer{runner: runner, failures: newFailures()}
}

// Source is a chart with values. A Renderer does not change it.
type Source struct {
	// Chart is the chart as it was loaded, before its dependencies are processed.
	Chart *chart.Chart
	// Values are the values of the release.
	Values map[string]any
	// Tenant is the owner of the release. Tenants share the runner fairly.
	Tenant string
	// Begin, if set, is called right before a task runs. If it returns an error, the task does not run, and [IsNotBegun]
	// recognizes the error. Begin is not called if the task does not run, because its failure is kept.
	Begin func() error
}

// begin calls Begin.
func (s *Source) begin() error {
	if s.Begin == nil {
		return nil
	}
	if err := s.Begin(); err != nil {
		return &notBegunError{err}
	}
	return nil
}

// notBegunError is an error of [Source.Begin]. It has the text of that error.
type notBegunError struct{ error }

func (e *notBegunError) Unwrap() error { return e.error }

// IsNotBegun reports whether a task did not run, because [Source.Begin] returned an error.
func IsNotBegun(err error) bool {
	var notBegun *notBegunError
	return errors.As(err, &notBegun)
}

// CheckChart checks the parts of a chart that do not depend on values: metadata, type and dependencies. An error has
// the kind [ErrInvalidChart].
func CheckChart(chrt *chart.Chart) error {
	if chrt == nil || chrt.Metadata == nil {
		return Errorf(ErrInvalidChart, "the chart is missing")
	}
	// Validate changes the metadata.
	metadata := copyMetadata(chrt.Metadata)
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

// CheckValues validates the values with the schemas of the chart and of its dependencies. If the values are invalid,
// the error has the kind [ErrInvalidValues].
func (r *Renderer) CheckValues(ctx context.Context, source Source) error {
	if !hasSchema(source.Chart) {
		return nil
	}
	_, err := run[struct{}](ctx, r, taskCheck, source, source.Values, nil)
	return err
}

// CRDs returns the files in the folders crds of a chart and of the dependencies that the values enable, in the order of
// Helm.
func (r *Renderer) CRDs(ctx context.Context, source Source) ([]chart.CRD, error) {
	found := source.Chart.CRDObjects()
	if len(found) == 0 || len(source.Chart.Dependencies()) == 0 {
		return found, nil
	}
	return run[[]chart.CRD](ctx, r, taskCRDs, source, source.Values, nil)
}

// Options hold the input of templates besides the values.
type Options struct {
	// Release is .Release in templates.
	Release chartutil.ReleaseOptions
	// Capabilities are .Capabilities in templates.
	Capabilities *chartutil.Capabilities
	// Lookup carries out lookups of templates. If it is nil, lookups find no objects.
	Lookup LookupFunc
}

// Rendered is the result of rendering a chart.
type Rendered struct {
	// Literal has templates that print the rendered files, whatever the values are. Literal has no dependencies. The
	// caller may change it.
	Literal *chart.Chart
	// Weight is the weight of the manifests in Literal.
	Weight yamlweight.Weight
	// Recorded is the chart for Helm's record: the source with processed dependencies.
	Recorded *chart.Chart
}

// Render renders a chart. The error of a template is the same error as with Helm. If a lookup failed, the error wraps
// the error of the lookup.
func (r *Renderer) Render(ctx context.Context, source Source, options Options) (*Rendered, error) {
	request := renderRequest{
		Values: source.Values, Release: options.Release, Capabilities: *options.Capabilities, Lookups: options.Lookup != nil,
	}
	server := &lookupServer{lookup: options.Lookup}
	result, err := run[renderResult](ctx, r, taskRender, source, request, server.serve)
	if err != nil {
		if server.failed != nil && strings.Contains(err.Error(), server.failed.Error()) {
			err = &lookupError{text: err.Error(), cause: server.failed}
		}
		return nil, err
	}
	recorded := CopyChart(source.Chart)
	if result.IsProcessed {
		recorded.Metadata.Dependencies, recorded.Values = result.Dependencies, result.Values
	}
	literal := literalChart(source.Chart.Metadata, result.Files)
	return &Rendered{Literal: literal, Weight: result.Weight, Recorded: recorded}, nil
}

// lookupError is the error of a template whose lookup failed. It restores the cause, because tasks return errors as
// text.
type lookupError struct {
	text  string
	cause error
}

func (e *lookupError) Error() string { return e.text }
func (e *lookupError) Unwrap() error { return e.cause }

// literalChart returns a chart that Helm renders to the given files. Each template prints a file of the chart. Helm
// parses only the templates, so the content of the files costs no more than its size.
func literalChart(metadata *chart.Metadata, files []*chart.File) *chart.Chart {
	literal := &chart.Chart{Metadata: copyMetadata(metadata)}
	literal.Metadata.Dependencies = nil
	for i, file := range files {
		name, content := strings.TrimPrefix(file.Name, metadata.Name+"/"), strconv.Itoa(i)
		literal.Templates = append(literal.Templates,
			&chart.File{Name: name, Data: []byte(`{{ .Files.Get "` + content + `" }}`)})
		literal.Files = append(literal.Files, &chart.File{Name: content, Data: file.Data})
	}
	return literal
}

// PostRenderer returns a post-renderer for a release in a namespace; nil if there are no changes. The post-renderer
// does not need the chart and the values of the source. An error has the kind [ErrPostRender].
func (r *Renderer) PostRenderer(
	ctx context.Context, changes *PostRender, namespace string, source Source,
) (postrender.PostRenderer, error) {
	if changes.isEmpty() {
		return nil, nil
	}
	// newPostRenderer fails for malformed patches, before the action changes the cluster.
	if _, err := newPostRenderer(changes, namespace); err != nil {
		return nil, err
	}
	source.Chart, source.Values = nil, nil
	return &taskPostRenderer{ctx: ctx, renderer: r, changes: changes, namespace: namespace, source: source}, nil
}

// taskPostRenderer changes manifests in a task.
type taskPostRenderer struct {
	ctx       context.Context
	renderer  *Renderer
	changes   *PostRender
	namespace string
	source    Source
}

// Run implements postrender.PostRenderer.
func (p *taskPostRenderer) Run(rendered *bytes.Buffer) (*bytes.Buffer, error) {
	request := postRenderRequest{Changes: *p.changes, Namespace: p.namespace, Manifest: rendered.Bytes()}
	manifest, err := run[[]byte](p.ctx, p.renderer, taskPostRender, p.source, request, nil)
	if err != nil {
		return nil, err
	}
	return bytes.NewBuffer(manifest), nil
}

// run runs a task and returns the value of its response. The task gets the chart of the source, if it has a chart. The
// function answer carries out the lookups of the task. If the same task failed a short time ago without a lookup, run
// returns the same failure. If the task is the same check of values, and found them valid, run does not check them
// again.
func run[Value any](
	ctx context.Context, r *Renderer, task string, source Source, request any,
	answer func(context.Context, []byte) ([]byte, error),
) (value Value, err error) {
	input, err := encode(request)
	if err != nil {
		return value, err
	}
	work := sandbox.Request{Task: task, Tenant: source.Tenant, Input: input}
	hasAsked := false
	if answer != nil {
		work.Answer = func(ctx context.Context, question []byte) ([]byte, error) {
			hasAsked = true
			return answer(ctx, question)
		}
	}
	if source.Chart != nil {
		key, err := keyOf(source.Chart)
		if err != nil {
			return value, err
		}
		work.Shared = &sandbox.Shared{Key: key, Data: func() ([]byte, error) { return encode(toWire(source.Chart)) }}
	}
	key := failureKeyOf(&work)
	if known, ok := r.failures.get(source.Tenant, key); ok {
		return value, known.err()
	}
	work.Begin = source.begin
	output, err := r.runner.Run(ctx, work)
	if err != nil {
		return value, limitError(err)
	}
	var result response[Value]
	if err := decode(output, &result); err != nil {
		return value, err
	}
	if (result.Failure != nil || task == taskCheck) && !hasAsked {
		r.failures.keep(source.Tenant, key, result.Failure)
	}
	return result.Value, result.Failure.err()
}

// hasSchema reports whether a chart or a dependency has a schema.
func hasSchema(chrt *chart.Chart) bool {
	return len(chrt.Schema) > 0 || slices.ContainsFunc(chrt.Dependencies(), hasSchema)
}
