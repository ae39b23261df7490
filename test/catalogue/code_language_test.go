// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlainEnglishInCode checks the comments and the texts of the program: messages, help and logs.
func TestPlainEnglishInCode(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, folder := range []string{"main.go", "api", "cmd", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			checked++
			return checkWords(t, path)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 100 {
		t.Errorf("only %d files were found", checked)
	}
}

func checkWords(t *testing.T, path string) error {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	check := func(position token.Pos, text string) {
		for _, word := range outOfUse.FindAllString(text, -1) {
			place := files.Position(position)
			page, _ := filepath.Rel(root, place.Filename)
			t.Errorf("%s:%d: %q: use another word, see the glossary of the project", page, place.Line, word)
		}
	}
	for _, group := range file.Comments {
		check(group.Pos(), inOneLine(group.Text()))
	}
	ast.Inspect(file, func(node ast.Node) bool {
		// Identifiers and keys have no spaces.
		if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
			check(literal.Pos(), inOneLine(literal.Value))
		}
		return true
	})
	return nil
}

// inOneLine joins the lines of a text, because a phrase may continue in the next line.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
