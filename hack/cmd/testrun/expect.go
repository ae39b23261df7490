// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// listed is a package as `go list -json` describes it.
type listed struct {
	Dir, ImportPath           string
	TestGoFiles, XTestGoFiles []string
}

// expect counts the results that a group will report: packages or, if there is only one package, tests. It returns an
// error if a pattern matches no test.
func (r *report) expect(ctx context.Context, g group) error {
	selected, packages := selection(g.args)
	cmd := exec.CommandContext(ctx, "go",
		append([]string{"list", "-json=Dir,ImportPath,TestGoFiles,XTestGoFiles"}, packages...)...)
	cmd.Dir = g.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("list the packages %s: %w: %s", strings.Join(packages, " "), err, stderr.String())
	}
	var found []listed
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		found = append(found, l)
	}
	if len(found) != 1 {
		r.expected += len(found)
		return nil
	}
	r.single[found[0].ImportPath] = true
	count, err := countTests(found[0], selected)
	if err == nil && count == 0 && selected != "" {
		return fmt.Errorf("no test in %s matches -run=%s: go test would pass without a test", found[0].ImportPath, selected)
	}
	r.expected += count
	return err
}

// selection returns the tests and packages that the arguments of go test select. It does not support flags with a
// separate value: write -run=X.
func selection(args []string) (run string, packages []string) {
	for _, arg := range args {
		switch name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); {
		case !strings.HasPrefix(arg, "-"):
			packages = append(packages, arg)
		case name == "run":
			run, _, _ = strings.Cut(value, "/")
		}
	}
	return run, packages
}

// countTests counts the top-level tests of a package whose names match.
func countTests(l listed, run string) (int, error) {
	selected, err := regexp.Compile(run)
	if err != nil {
		return 0, err
	}
	count := 0
	for _, file := range append(l.TestGoFiles, l.XTestGoFiles...) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(l.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && isTest(f.Name.Name) && selected.MatchString(f.Name.Name) {
				count++
			}
		}
	}
	return count, nil
}

// isTest applies the rule of go test: TestMain is not a test, and the character after "Test" is not a lower-case
// letter.
func isTest(name string) bool {
	rest, ok := strings.CutPrefix(name, "Test")
	return ok && name != "TestMain" && (rest == "" || rest[0] < 'a' || rest[0] > 'z')
}
