// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
)

// notesFile is what a chart says to people.
const notesFile = "NOTES.txt"

type renderRequest struct {
	Values       map[string]any
	Release      chartutil.ReleaseOptions
	Capabilities chartutil.Capabilities
	// Lookups tells that what the chart looks up is asked. Otherwise nothing is found.
	Lookups bool
}

type renderResult struct {
	Failure *failure
	Files   []renderedFile
	// IsProcessed tells that the dependencies and the values of the chart have become these.
	IsProcessed  bool
	Dependencies []*chart.Dependency
	Values       map[string]any
}

// renderedFile is what became of a template.
type renderedFile struct {
	Name string
	Text []byte
}

func runRender(work *sandbox.Work) ([]byte, error) {
	var request renderRequest
	if err := decode(work.Input, &request); err != nil {
		return nil, err
	}
	chrt, err := chartOf(work)
	if err != nil {
		return nil, err
	}
	result, err := render(chrt, &request, work)
	if err != nil {
		result = &renderResult{Failure: failureOf(err)}
	}
	return encode(result)
}

// render does what Helm does between a chart and the text of its files, in the same order and with the same errors.
func render(chrt *chart.Chart, request *renderRequest, work *sandbox.Work) (*renderResult, error) {
	work.Note(noteDependencies)
	result := &renderResult{IsProcessed: chrt.Metadata.Dependencies != nil}
	if err := chartutil.ProcessDependenciesWithMerge(chrt, request.Values); err != nil {
		return nil, err
	}
	if result.IsProcessed {
		result.Dependencies, result.Values = chrt.Metadata.Dependencies, chrt.Values
	}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(chrt, request.Values, request.Release, &request.Capabilities, true)
	if err != nil {
		return nil, err
	}
	version := request.Capabilities.KubeVersion.Version
	if wanted := chrt.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, version) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, version)
	}
	mark(chrt)
	files, err := engine.RenderWithClientProvider(chrt, values, &lookups{work: work, asks: request.Lookups})
	if err != nil {
		return nil, err
	}
	work.Note(noteManifests)
	budget := &manifestBudget{}
	for name, text := range files {
		isNotes := strings.HasSuffix(name, notesFile)
		if strings.HasSuffix(name, markSuffix) || !isNotes && strings.TrimSpace(text) == "" {
			continue
		}
		if !isNotes {
			if err := budget.take(name, text); err != nil {
				return nil, err
			}
		}
		result.Files = append(result.Files, renderedFile{Name: name, Text: []byte(text)})
	}
	slices.SortFunc(result.Files, func(a, b renderedFile) int { return strings.Compare(a.Name, b.Name) })
	return result, nil
}

const (
	// markSuffix makes the name of a mark of that of a template. There is no name between the two, and Helm executes templates in the
	// descending order of their names, so each mark is executed right before its template.
	markSuffix = "\x00"
	// markVersion stands where a template that looks something up has an API version.
	markVersion = "\x00"
)

// mark adds a template before each one, which notes that it is the turn of that one. Helm's engine has no other way to tell, and the
// templates themselves must stay as they are: errors tell lines and columns.
func mark(chrt *chart.Chart) {
	marks := make([]*chart.File, 0, len(chrt.Templates))
	for _, template := range chrt.Templates {
		if template == nil || strings.HasPrefix(path.Base(template.Name), "_") {
			continue
		}
		text := fmt.Sprintf(`{{ if lookup %q %q "" "" }}{{ end }}`, markVersion, path.Join(chrt.ChartFullPath(), template.Name))
		marks = append(marks, &chart.File{Name: template.Name + markSuffix, Data: []byte(text)})
	}
	chrt.Templates = slices.Concat(chrt.Templates, marks)
	for _, subchart := range chrt.Dependencies() {
		mark(subchart)
	}
}
