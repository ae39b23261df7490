// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package rendering

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

const (
	// maxSchemaViolations is the maximum number of violations in an error.
	maxSchemaViolations = 5
	// maxViolationsKept is the maximum number of violations in memory: values can violate a rule in very many places.
	maxViolationsKept = 1000
)

// checkSchemas validates values with the schemas of a chart and of its dependencies. If the values are invalid, the
// error has the kind [ErrInvalidValues].
func checkSchemas(chrt *chart.Chart, values map[string]any) error {
	violations := &violationList{}
	if err := schemaViolations(chrt, values, "", violations); err != nil {
		return err
	}
	if len(violations.texts) == 0 {
		return nil
	}
	return Errorf(ErrInvalidValues, "%s", violations)
}

// schemaViolations adds the violations of the schemas of a chart and of its dependencies. path is the path of the
// chart's values.
func schemaViolations(chrt *chart.Chart, values map[string]any, path string, violations *violationList) error {
	if err := singleSchemaViolations(chrt, values, path, violations); err != nil {
		return err
	}
	for _, dependency := range chrt.Dependencies() {
		raw, ok := values[dependency.Name()]
		if !ok || raw == nil {
			continue
		}
		below := path + "/" + dependency.Name()
		nested, ok := asMap(raw)
		if !ok {
			violations.add(below + ": must be an object")
			continue
		}
		if err := schemaViolations(dependency, nested, below, violations); err != nil {
			return err
		}
	}
	return nil
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

// singleSchemaViolations adds the violations of the schema of a chart, without its dependencies.
func singleSchemaViolations(
	chrt *chart.Chart, values map[string]any, path string, violations *violationList,
) (err error) {
	if len(chrt.Schema) == 0 {
		return nil
	}
	defer func() {
		// The library panics on some schemas. Helm recovers from this too.
		if r := recover(); r != nil {
			err = Errorf(ErrInvalidChart, "the schema of chart %q cannot be used", chrt.Name())
		}
	}()
	schema, err := compileSchema(chrt.Schema)
	if err != nil {
		return Errorf(ErrInvalidChart, "the schema of chart %q: %s", chrt.Name(), err)
	}
	err = schema.Validate(values)
	var invalid *jsonschema.ValidationError
	if errors.As(err, &invalid) {
		violations.addLeaves(invalid, path)
		return nil
	}
	if err != nil {
		return Errorf(ErrInvalidChart, "the schema of chart %q cannot be used", chrt.Name())
	}
	return nil
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

// acceptingLoader replaces each reference to another document with a schema that accepts everything. A chart must not
// make the manager read files or send requests.
type acceptingLoader struct{}

// Load implements jsonschema.URLLoader.
func (acceptingLoader) Load(string) (any, error) { return true, nil }

// violationList holds the violated rules and their paths, without duplicates.
type violationList struct {
	texts []string
	// isCut means that there are more than maxViolationsKept violations.
	isCut bool
}

func (l *violationList) add(text string) {
	switch {
	case slices.Contains(l.texts, text):
	case len(l.texts) >= maxViolationsKept:
		l.isCut = true
	default:
		l.texts = append(l.texts, text)
	}
}

// addLeaves adds the violations that have no further cause.
func (l *violationList) addLeaves(invalid *jsonschema.ValidationError, path string) {
	if len(invalid.Causes) == 0 {
		l.add(path + "/" + strings.Join(invalid.InstanceLocation, "/") + ": " + describeRule(invalid.ErrorKind))
	}
	for _, cause := range invalid.Causes {
		if l.isCut {
			return
		}
		l.addLeaves(cause, path)
	}
}

// String returns the first violations, and the number of the others.
func (l *violationList) String() string {
	slices.Sort(l.texts)
	shown, more := l.texts, ""
	if n := len(l.texts) - maxSchemaViolations; n > 0 {
		shown, more = l.texts[:maxSchemaViolations], fmt.Sprintf("; and %d more", n)
	}
	if l.isCut {
		more = fmt.Sprintf("; and more than %d more", maxViolationsKept-maxSchemaViolations)
	}
	return strings.Join(shown, "; ") + more
}

// describeRule names the violated rule, without the value, which may be a secret.
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
			return "does not match " + keywords[0]
		}
		return "does not match the schema"
	}
}
