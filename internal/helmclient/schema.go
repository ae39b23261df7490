/*
Copyright 2026 The HelmOp Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package helmclient

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// maxSchemaViolations bounds how many violations an error lists.
const maxSchemaViolations = 5

// skipsSchema says whether an action compares the values with the chart's schema.
func (o Options) skipsSchema(action Action) bool {
	if action == ActionInstall || action == ActionRecoverThenInstall {
		return o.Install.DisableSchemaValidation
	}
	return o.Upgrade.DisableSchemaValidation
}

// checkChart checks that a chart can be installed with the values, without talking to a cluster.
func checkChart(chrt *chart.Chart, values map[string]any, disableSchema bool) error {
	if chrt == nil || chrt.Metadata == nil {
		return errorOfKind(ErrInvalidChart, "there is no chart")
	}
	// Validating sanitises the metadata in place.
	metadata := copyMetadata(chrt.Metadata)
	if err := metadata.Validate(); err != nil {
		return errorOfKind(ErrInvalidChart, "%s", err)
	}
	if metadata.Type != "" && metadata.Type != "application" {
		return errorOfKind(ErrInvalidChart, "a chart of type %q cannot be installed", metadata.Type)
	}
	if err := action.CheckDependencies(chrt, metadata.Dependencies); err != nil {
		return errorOfKind(ErrInvalidChart, "%s", err)
	}
	if disableSchema || !hasSchema(chrt) {
		return nil
	}
	// What Helm does before it compares values with schemas, on copies since it changes both.
	copied, merged := copyChart(chrt), copyValues(values)
	if err := chartutil.ProcessDependenciesWithMerge(copied, merged); err != nil {
		return errorOfKind(ErrInvalidChart, "%s", err)
	}
	coalesced, err := chartutil.CoalesceValues(copied, merged)
	if err != nil {
		return errorOfKind(ErrInvalidChart, "%s", err)
	}
	violations, err := schemaViolations(copied, coalesced, "")
	if err != nil {
		return err
	}
	if len(violations) == 0 {
		return nil
	}
	return errorOfKind(ErrInvalidValues, "%s", listViolations(violations))
}

func hasSchema(chrt *chart.Chart) bool {
	return len(chrt.Schema) > 0 || slices.ContainsFunc(chrt.Dependencies(), hasSchema)
}

// schemaViolations compares values with the schemas of a chart and those of its dependencies.
func schemaViolations(chrt *chart.Chart, values map[string]any, path string) ([]string, error) {
	violations, err := singleSchemaViolations(chrt, values, path)
	if err != nil {
		return nil, err
	}
	for _, dependency := range chrt.Dependencies() {
		raw, ok := values[dependency.Name()]
		if !ok || raw == nil {
			continue
		}
		below := path + "/" + dependency.Name()
		nested, ok := asMap(raw)
		if !ok {
			violations = append(violations, below+": must be an object")
			continue
		}
		more, err := schemaViolations(dependency, nested, below)
		if err != nil {
			return nil, err
		}
		violations = append(violations, more...)
	}
	return violations, nil
}

func asMap(value any) (map[string]any, bool) {
	switch typed := value.(type) {
	case map[string]any:
		return typed, true
	case chartutil.Values:
		return typed, true
	default:
		return nil, false
	}
}

func singleSchemaViolations(chrt *chart.Chart, values map[string]any, path string) (violations []string, err error) {
	if len(chrt.Schema) == 0 {
		return nil, nil
	}
	defer func() {
		// The library panics on some schemas; Helm guards against it too.
		if r := recover(); r != nil {
			violations, err = nil, errorOfKind(ErrInvalidChart, "the schema of chart %q cannot be used", chrt.Name())
		}
	}()
	schema, err := compileSchema(chrt.Schema)
	if err != nil {
		return nil, errorOfKind(ErrInvalidChart, "the schema of chart %q: %s", chrt.Name(), err)
	}
	err = schema.Validate(values)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		return leafViolations(invalid, path, nil), nil
	}
	if err != nil {
		return nil, errorOfKind(ErrInvalidChart, "the schema of chart %q cannot be used", chrt.Name())
	}
	return nil, nil
}

func compileSchema(data []byte) (*jsonschema.Schema, error) {
	const location = "file:///values.schema.json"
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(acceptingLoader{})
	if err := compiler.AddResource(location, document); err != nil {
		return nil, err
	}
	return compiler.Compile(location)
}

// acceptingLoader stands for schemas that a chart refers to elsewhere: they accept everything. A chart must not
// make the controller read its files, or send requests from where it stands.
type acceptingLoader struct{}

// Load implements jsonschema.URLLoader.
func (acceptingLoader) Load(string) (any, error) { return true, nil }

// leafViolations appends the violations at the leaves of the tree: where they are and which rule they break.
func leafViolations(invalid *jsonschema.ValidationError, path string, violations []string) []string {
	if len(invalid.Causes) == 0 {
		location := path + "/" + strings.Join(invalid.InstanceLocation, "/")
		return append(violations, location+": "+describeRule(invalid.ErrorKind))
	}
	for _, cause := range invalid.Causes {
		violations = leafViolations(cause, path, violations)
	}
	return violations
}

// describeRule says which rule is broken, without the value that breaks it.
func describeRule(rule jsonschema.ErrorKind) string {
	switch typed := rule.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, not %s", strings.Join(typed.Want, " or "), typed.Got)
	case *kind.Required:
		return "lacks " + strings.Join(typed.Missing, ", ")
	case *kind.AdditionalProperties:
		return "does not allow " + strings.Join(typed.Properties, ", ")
	case *kind.Enum:
		return fmt.Sprintf("must be one of %v", typed.Want)
	case *kind.Pattern:
		return "must match " + typed.Want
	case *kind.FalseSchema:
		return "is not allowed"
	default:
		if keywords := rule.KeywordPath(); len(keywords) > 0 {
			return "does not meet " + keywords[0]
		}
		return "does not meet the schema"
	}
}

func listViolations(violations []string) string {
	slices.Sort(violations)
	violations = slices.Compact(violations)
	more := ""
	if n := len(violations) - maxSchemaViolations; n > 0 {
		violations = violations[:maxSchemaViolations]
		more = fmt.Sprintf("; and %d more", n)
	}
	return strings.Join(violations, "; ") + more
}
