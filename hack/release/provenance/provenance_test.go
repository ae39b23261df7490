// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package provenance

import (
	"bytes"
	"strings"
	"testing"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

func testBuild() Build {
	return Build{
		Source: "https://example.com/repository", Commit: strings.Repeat("ab", 20), Go: "go1.26.8",
		Builder: "https://example.com/builder", Parameters: map[string]string{"RELEASE_TAG": "v1.2.3"},
		Subjects: map[string]string{"b": strings.Repeat("0b", 32), "a": strings.Repeat("0a", 32)},
	}
}

func TestStatement(t *testing.T) {
	t.Parallel()
	text, err := Statement(testBuild())
	if err != nil {
		t.Fatal(err)
	}
	again, err := Statement(testBuild())
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("two statements differ: %v", err)
	}
	statement := &intoto.Statement{}
	if err := protojson.Unmarshal(text, statement); err != nil {
		t.Fatal(err)
	}
	if err := statement.Validate(); err != nil {
		t.Error(err)
	}
	if got := statement.GetSubject(); len(got) != 2 || got[0].GetName() != "a" ||
		got[0].GetDigest()["sha256"] != strings.Repeat("0a", 32) {
		t.Errorf("the subjects are %v", got)
	}
	predicate, err := Predicate(text)
	if err != nil {
		t.Fatal(err)
	}
	found := &slsa.Provenance{}
	if err := protojson.Unmarshal(predicate, found); err != nil {
		t.Fatal(err)
	}
	if err := found.Validate(); err != nil {
		t.Error(err)
	}
	source := found.GetBuildDefinition().GetResolvedDependencies()[0]
	if source.GetUri() != "git+https://example.com/repository" ||
		source.GetDigest()["gitCommit"] != strings.Repeat("ab", 20) ||
		found.GetRunDetails().GetBuilder().GetId() != "https://example.com/builder" ||
		found.GetBuildDefinition().GetExternalParameters().AsMap()["RELEASE_TAG"] != "v1.2.3" {
		t.Errorf("the provenance is %s", predicate)
	}
}

func TestIncompleteBuildsAreErrors(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Build){
		"no builder":  func(b *Build) { b.Builder = "" },
		"no subjects": func(b *Build) { b.Subjects = nil },
		"no commit":   func(b *Build) { b.Commit = "unknown" },
		"no digest":   func(b *Build) { b.Subjects["a"] = "x" },
	} {
		build := testBuild()
		change(&build)
		if text, err := Statement(build); err == nil {
			t.Errorf("%s: the statement is %s", name, text)
		}
	}
}
