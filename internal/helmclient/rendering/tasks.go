// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// The names of the tasks.
const (
	taskCheck      = "chart/check"
	taskCRDs       = "chart/crds"
	taskRender     = "chart/render"
	taskPostRender = "chart/postRender"
)

// Tasks returns the tasks of a [Renderer], for [sandbox.Serve].
func Tasks() sandbox.Tasks {
	return sandbox.Tasks{
		taskCheck:      {Decode: decodeChart, Run: runCheck},
		taskCRDs:       {Decode: decodeChart, Run: runCRDs},
		taskRender:     {Decode: decodeChart, Run: runRender},
		taskPostRender: {Run: runPostRender},
	}
}

// What tasks note at steps that are no templates.
const (
	noteDependencies = "the dependencies and values of the chart"
	noteSchema       = "values.schema.json of the chart"
	notePatches      = "spec.postRender"
	noteManifests    = "the rendered manifests"
)

// errNoChart means that the engine and a task do not fit.
var errNoChart = errors.New("there is no chart")

func chartOf(work *sandbox.Work) (*chart.Chart, error) {
	shared, ok := work.Shared.(*chart.Chart)
	if !ok {
		return nil, errNoChart
	}
	// Helm changes the chart, and further requests need it.
	return CopyChart(shared), nil
}

// checkRequest is the input of two tasks.
type checkRequest struct{ Values map[string]any }

type checkResult struct{ Failure *failure }

func runCheck(work *sandbox.Work) ([]byte, error) {
	var request checkRequest
	if err := decode(work.Input, &request); err != nil {
		return nil, err
	}
	chrt, err := chartOf(work)
	if err != nil {
		return nil, err
	}
	work.Note(noteDependencies)
	return encode(checkResult{Failure: failureOf(checkValues(chrt, request.Values, func() { work.Note(noteSchema) }))})
}

// checkValues compares values with the schemas of a chart. It changes both.
func checkValues(chrt *chart.Chart, values map[string]any, compares func()) error {
	// What Helm does before it compares values with schemas.
	if err := chartutil.ProcessDependenciesWithMerge(chrt, values); err != nil {
		return Errorf(ErrInvalidChart, "%s", err)
	}
	coalesced, err := chartutil.CoalesceValues(chrt, values)
	if err != nil {
		return Errorf(ErrInvalidChart, "%s", err)
	}
	compares()
	violations := &violationList{}
	if err := schemaViolations(chrt, coalesced, "", violations); err != nil {
		return err
	}
	if violations.isEmpty() {
		return nil
	}
	return Errorf(ErrInvalidValues, "%s", violations)
}

type crdsResult struct {
	Failure *failure
	CRDs    []crd
}

// crd is a file of a folder crds.
type crd struct {
	Filename, Name string
	Data           []byte
}

// runCRDs finds the CRDs of a chart and of those of its dependencies that the values enable.
func runCRDs(work *sandbox.Work) ([]byte, error) {
	var request checkRequest
	if err := decode(work.Input, &request); err != nil {
		return nil, err
	}
	chrt, err := chartOf(work)
	if err != nil {
		return nil, err
	}
	work.Note(noteDependencies)
	if err := chartutil.ProcessDependenciesWithMerge(chrt, request.Values); err != nil {
		return encode(crdsResult{Failure: failureOf(Errorf(ErrInvalidChart, "%s", err))})
	}
	var result crdsResult
	for _, found := range chrt.CRDObjects() {
		result.CRDs = append(result.CRDs, crd{Filename: found.Filename, Name: found.File.Name, Data: found.File.Data})
	}
	return encode(result)
}

type postRenderRequest struct {
	PostRender PostRender
	Namespace  string
	Manifest   []byte
}

type postRenderResult struct {
	Failure  *failure
	Manifest []byte
}

func runPostRender(work *sandbox.Work) ([]byte, error) {
	var request postRenderRequest
	if err := decode(work.Input, &request); err != nil {
		return nil, err
	}
	work.Note(notePatches)
	renderer, err := newPostRenderer(&request.PostRender, request.Namespace)
	if err != nil {
		return encode(postRenderResult{Failure: failureOf(err)})
	}
	if renderer == nil {
		return encode(postRenderResult{Manifest: request.Manifest})
	}
	manifest, err := renderer.run(request.Manifest)
	if err != nil {
		return encode(postRenderResult{Failure: failureOf(err)})
	}
	work.Note(noteManifests)
	if err := (&manifestBudget{}).take("what the patches yield", string(manifest)); err != nil {
		return encode(postRenderResult{Failure: failureOf(fmt.Errorf("post-rendering: %w", err))})
	}
	return encode(postRenderResult{Manifest: manifest})
}
