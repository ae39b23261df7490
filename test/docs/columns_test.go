// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	// getCommand matches a command of kubectl whose output is a table.
	getCommand = regexp.MustCompile(`^\s*\$ kubectl (?:-n \S+ )?get (\S+)(.*)$`)

	// tableHeader matches the header of such a table.
	tableHeader = regexp.MustCompile(`^\s*(?:NAMESPACE +)?NAME +([A-Z].*)$`)
)

// TestColumns checks that tables in the documentation have the printer columns of HelmOp's kinds.
func TestColumns(t *testing.T) {
	t.Parallel()
	columns := printerColumns(t)
	tables := 0
	for _, page := range pages(t) {
		checked, errs := checkColumns(read(t, page), columns)
		tables += checked
		for _, err := range errs {
			t.Errorf("%s: %v", page, err)
		}
	}
	if tables < 4 {
		t.Errorf("%d tables in the documentation, expected 4 or more: does the test still find them?", tables)
	}
	if checked, errs := checkColumns("$ kubectl get hop -A\nNAMESPACE  NAME  READY", columns); checked != 1 ||
		len(errs) != 1 {
		t.Errorf("a wrong header: %d checked, %v", checked, errs)
	}
}

// checkColumns checks the headers that follow a command, and returns their number.
func checkColumns(text string, columns map[string][]string) (checked int, errs []error) {
	var kinds []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if command := getCommand.FindStringSubmatch(line); command != nil {
			kinds = nil
			for kind := range strings.SplitSeq(command[1], ",") {
				if strings.Contains(command[2], "-o wide") {
					kind += " -o wide"
				}
				kinds = append(kinds, kind)
			}
			continue
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			kinds = nil
		}
		header := tableHeader.FindStringSubmatch(line)
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return columns[kind] == nil })
		if header == nil || len(kinds) == 0 {
			continue
		}
		checked++
		got := strings.Fields(header[1])
		if !slices.ContainsFunc(kinds, func(kind string) bool { return slices.Equal(columns[kind], got) }) {
			errs = append(errs, fmt.Errorf("no kind of %v has the columns %v", kinds, got))
		}
	}
	return checked, errs
}

// printerColumns returns the columns of HelmOp's kinds by each name of the kind, and by the name with " -o wide".
func printerColumns(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CustomResourceDefinitions (%v)", err)
	}
	columns := map[string][]string{}
	for _, file := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(read(t, file)), crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var usual, wide []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			name := strings.ToUpper(column.Name)
			wide = append(wide, name)
			if column.Priority == 0 {
				usual = append(usual, name)
			}
		}
		plural := crd.Spec.Names.Plural
		names := append([]string{plural, plural + "." + crd.Spec.Group, crd.Spec.Names.Singular},
			crd.Spec.Names.ShortNames...)
		for _, name := range names {
			columns[name], columns[name+" -o wide"] = usual, wide
		}
	}
	return columns
}
