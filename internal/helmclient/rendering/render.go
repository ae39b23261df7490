// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/manifestweight"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/sandbox"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/yamlweight"
)

const (
	// notesFile is the suffix of a template that renders notes for people.
	notesFile = "NOTES.txt"
	// maxNotes bounds the size of all rendered notes, in bytes. The notes are a part of the record.
	maxNotes = 1 << 20
	// sourceBytes is the size, in bytes, of the lines that Helm adds to a document, without the name of the file.
	sourceBytes = len("---\n# Source: \n\n")
)

// renderRequest is the input of taskRender.
type renderRequest struct {
	Values       map[string]any
	Release      chartutil.ReleaseOptions
	Capabilities chartutil.Capabilities
	// Lookups means that the engine carries out lookups. Otherwise, lookups find no objects.
	Lookups bool
}

// renderResult is the output of taskRender.
type renderResult struct {
	// Files are the rendered templates. Weight is the weight of the manifests in them.
	Files  []*chart.File
	Weight yamlweight.Weight
	// IsProcessed means that Helm processed the dependencies of the chart. The record then has these Dependencies and
	// Values.
	IsProcessed  bool
	Dependencies []*chart.Dependency
	Values       map[string]any
}

// runRender renders the files of a chart. It does the same steps as Helm, in the same order and with the same errors.
func runRender(work *sandbox.Work, request renderRequest) (*renderResult, error) {
	chrt, err := chartOf(work)
	if err != nil {
		return nil, err
	}
	work.Note(noteDependencies)
	result := &renderResult{IsProcessed: chrt.Metadata.Dependencies != nil}
	if err := chartutil.ProcessDependenciesWithMerge(chrt, request.Values); err != nil {
		return nil, err
	}
	if result.IsProcessed {
		if err := checkMerged(chrt.Values); err != nil {
			return nil, err
		}
		result.Dependencies, result.Values = chrt.Metadata.Dependencies, chrt.Values
	}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(
		chrt, request.Values, request.Release, &request.Capabilities, true)
	if err != nil {
		return nil, err
	}
	version := request.Capabilities.KubeVersion.Version
	if required := chrt.Metadata.KubeVersion; required != "" && !chartutil.IsCompatibleRange(required, version) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", required, version)
	}
	addMarks(chrt)
	files, err := engine.RenderWithClientProvider(chrt, values, &lookups{work: work, isServed: request.Lookups})
	if err != nil {
		return nil, err
	}
	work.Note(noteManifests)
	return result, result.add(files)
}

// checkMerged returns an error if the values of a chart, after its dependencies were processed, are too many for a
// record. A chart can import the same values many times. They are small here, because the copies share their memory,
// but not in the answer to the engine.
func checkMerged(values map[string]any) error {
	if countValues(values, MaxRecordValues) < 0 {
		return Errorf(ErrInvalidChart, "the chart has more than %d values after values were imported from its dependencies: "+
			"import fewer values", MaxRecordValues)
	}
	return nil
}

// countValues subtracts the number of values in a value from left. It stops when the result is negative.
func countValues(value any, left int) int {
	left--
	items := slices.Values[[]any](nil)
	switch value := value.(type) {
	case map[string]any:
		items = maps.Values(value)
	case []any:
		items = slices.Values(value)
	}
	for item := range items {
		if left < 0 {
			break
		}
		left = countValues(item, left)
	}
	return left
}

// add adds the rendered files that Helm reads, in the order of their names. It returns an error if they are too large.
func (r *renderResult) add(rendered map[string]string) error {
	var budget manifestweight.Budget
	notes := 0
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		text := rendered[name]
		isNotes := strings.HasSuffix(name, notesFile)
		switch {
		case strings.HasSuffix(name, markSuffix), !isNotes && strings.TrimSpace(text) == "":
			continue
		case isNotes:
			if notes += len(text); notes > maxNotes {
				return Errorf(ErrInvalidChart, "%s: the notes have more than %d MiB: shorten them", name, maxNotes>>20)
			}
		default:
			if err := takeManifests(&budget, name, text); err != nil {
				return err
			}
			// Helm repeats the name of the file before each document.
			documents := 1 + strings.Count(text, "\n---")
			if err := budget.Add(yamlweight.Weight{Bytes: int64(documents * (len(name) + sourceBytes))}); err != nil {
				return Errorf(ErrInvalidChart, "%s, from %s on: split the chart", err, name)
			}
		}
		r.Files = append(r.Files, &chart.File{Name: name, Data: []byte(text)})
	}
	r.Weight = budget.Weight()
	return nil
}

const (
	// markSuffix is appended to the name of a template. The result is the name of the template's mark. Helm executes
	// templates in descending order of their names, and no name sorts between these two names. So Helm executes each mark
	// right before its template.
	markSuffix = "\x00"
	// markVersion is the API version in the lookup of a mark.
	markVersion = "\x00"
)

// addMarks adds a mark for each template. A mark is a template that records the name of the template that Helm executes
// next, because Helm's engine does not report names. The other templates stay unchanged, because errors name lines and
// columns.
func addMarks(chrt *chart.Chart) {
	marks := make([]*chart.File, 0, len(chrt.Templates))
	for _, template := range chrt.Templates {
		if template == nil || strings.HasPrefix(path.Base(template.Name), "_") {
			continue
		}
		name := path.Join(chrt.ChartFullPath(), template.Name)
		text := fmt.Sprintf(`{{ if lookup %q %q "" "" }}{{ end }}`, markVersion, name)
		marks = append(marks, &chart.File{Name: template.Name + markSuffix, Data: []byte(text)})
	}
	chrt.Templates = slices.Concat(chrt.Templates, marks)
	for _, subchart := range chrt.Dependencies() {
		addMarks(subchart)
	}
}
