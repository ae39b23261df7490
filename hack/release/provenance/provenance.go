// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provenance writes a statement about the sources and the build of a release: an in-toto statement with the
// predicate SLSA provenance v1. The statement contains no times and no build number, so the same source gives the same
// bytes. The package does not sign the statement: package signing does.
package provenance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// PredicateType is the type of the predicate.
	PredicateType = "https://slsa.dev/provenance/v1"
	// BuildType names the description of a build's parameters.
	BuildType = "https://github.com/helmop/cluster-api-addon-provider-helmop/blob/main/docs/releasing.md#build-type"
)

// Build describes a build.
type Build struct {
	// Source is the URL of the repository. Commit is the commit from which the release was built.
	Source, Commit string
	// Go is the version of the go command, such as "go1.26.8".
	Go string
	// Builder is the URI of the machine that built the release.
	Builder string
	// Parameters are the variables of `make release` that affect the result.
	Parameters map[string]string
	// Subjects are the SHA-256 sums of the built files, by name.
	Subjects map[string]string
}

// commitPattern matches a commit of Git.
var commitPattern = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Statement returns the statement as JSON.
func Statement(build Build) ([]byte, error) {
	if !commitPattern.MatchString(build.Commit) {
		return nil, fmt.Errorf("%q is not a commit: build the release in a Git checkout", build.Commit)
	}
	parameters, err := structpb.NewStruct(asAny(build.Parameters))
	if err != nil {
		return nil, err
	}
	provenance := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType:          BuildType,
			ExternalParameters: parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+" + build.Source, Digest: map[string]string{"gitCommit": build.Commit}},
				{Uri: "pkg:golang/stdlib@" + strings.TrimPrefix(build.Go, "go")},
			},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: build.Builder}},
	}
	if err := provenance.Validate(); err != nil {
		return nil, fmt.Errorf("the provenance is invalid: %w", err)
	}
	predicate, err := asStruct(provenance)
	if err != nil {
		return nil, err
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: PredicateType, Predicate: predicate}
	for _, name := range slices.Sorted(maps.Keys(build.Subjects)) {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{
			Name: name, Digest: map[string]string{"sha256": build.Subjects[name]},
		})
	}
	if err := statement.Validate(); err != nil {
		return nil, fmt.Errorf("the statement is invalid: %w", err)
	}
	return marshal(statement)
}

// Predicate returns the predicate of a statement. It can be used in a statement about another subject.
func Predicate(statement []byte) (json.RawMessage, error) {
	var parsed struct {
		Predicate json.RawMessage `json:"predicate"`
	}
	return parsed.Predicate, json.Unmarshal(statement, &parsed)
}

func asAny(from map[string]string) map[string]any {
	to := map[string]any{}
	for name, value := range from {
		to[name] = value
	}
	return to
}

func asStruct(message proto.Message) (*structpb.Struct, error) {
	data, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	to := &structpb.Struct{}
	return to, protojson.Unmarshal(data, to)
}

// marshal returns indented JSON. protojson varies the white space.
func marshal(message proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}
