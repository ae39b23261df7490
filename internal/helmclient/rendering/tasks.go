// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// The names of the tasks.
const (
	taskCheck      = "chart/check"
	taskCRDs       = "chart/crds"
	taskRender     = "chart/render"
	taskPostRender = "chart/postRender"
)

// Tasks returns the tasks of a [Renderer] for [sandbox.Serve].
func Tasks() sandbox.Tasks {
	return sandbox.Tasks{
		taskCheck:      {Decode: decodeChart, Run: task(runCheck)},
		taskCRDs:       {Decode: decodeChart, Run: task(runCRDs)},
		taskRender:     {Decode: decodeChart, Run: task(runRender)},
		taskPostRender: {Run: task(runPostRender)},
	}
}

// response is the output of a task.
type response[Value any] struct {
	Failure *failure
	// Value is set if Failure is nil.
	Value Value
}

// task returns a function that decodes a Request, calls run and encodes the response.
func task[Request, Value any](run func(*sandbox.Work, Request) (Value, error)) func(*sandbox.Work) ([]byte, error) {
	return func(work *sandbox.Work) ([]byte, error) {
		var request Request
		if err := decode(work.Input, &request); err != nil {
			return nil, err
		}
		value, err := run(work, request)
		return encode(response[Value]{Failure: failureOf(err), Value: value})
	}
}

// Besides templates, the error of a limit names one of these steps.
const (
	noteDependencies = "the dependencies and values of the chart"
	noteSchema       = "values.schema.json of the chart"
	notePatches      = "spec.postRender"
	noteManifests    = "the rendered manifests"
)

// errNoChart means that the engine sent no chart to a task that needs one.
var errNoChart = errors.New("the chart is missing")

// chartOf returns a copy of the shared chart, because Helm changes the chart and later requests need it.
func chartOf(work *sandbox.Work) (*chart.Chart, error) {
	shared, ok := work.Shared.(*chart.Chart)
	if !ok {
		return nil, errNoChart
	}
	return CopyChart(shared), nil
}

// runCheck validates values with the schemas of a chart, as Helm does before it renders the chart.
func runCheck(work *sandbox.Work, values map[string]any) (struct{}, error) {
	chrt, err := chartOf(work)
	if err != nil {
		return struct{}{}, err
	}
	work.Note(noteDependencies)
	if err := chartutil.ProcessDependenciesWithMerge(chrt, values); err != nil {
		return struct{}{}, Errorf(ErrInvalidChart, "%s", err)
	}
	coalesced, err := chartutil.CoalesceValues(chrt, values)
	if err != nil {
		return struct{}{}, Errorf(ErrInvalidChart, "%s", err)
	}
	work.Note(noteSchema)
	return struct{}{}, checkSchemas(chrt, coalesced)
}

// runCRDs returns the CRDs of a chart and of the dependencies that the values enable.
func runCRDs(work *sandbox.Work, values map[string]any) ([]chart.CRD, error) {
	chrt, err := chartOf(work)
	if err != nil {
		return nil, err
	}
	work.Note(noteDependencies)
	if err := chartutil.ProcessDependenciesWithMerge(chrt, values); err != nil {
		return nil, Errorf(ErrInvalidChart, "%s", err)
	}
	return chrt.CRDObjects(), nil
}

// postRenderRequest is the input of taskPostRender.
type postRenderRequest struct {
	Changes   PostRender
	Namespace string
	Manifest  []byte
}

// runPostRender applies the changes to a manifest.
func runPostRender(work *sandbox.Work, request postRenderRequest) ([]byte, error) {
	work.Note(notePatches)
	renderer, err := newPostRenderer(&request.Changes, request.Namespace)
	if err != nil {
		return nil, err
	}
	manifest, err := renderer.run(request.Manifest)
	if err != nil {
		return nil, err
	}
	work.Note(noteManifests)
	if err := takeManifests(&manifestweight.Budget{}, "the patched manifest", string(manifest)); err != nil {
		return nil, fmt.Errorf("post-rendering: %w", err)
	}
	return manifest, nil
}
