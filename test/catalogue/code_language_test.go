// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ordinaryEnglish are parts of lines in which a word that is out of use has its ordinary meaning, or is data.
var ordinaryEnglish = []string{
	`nobody is first here`, // the message of an admission policy, which HelmOp does not write
	`elsewhere.example`,    // a host name
	`Namespace: elsewhere`, // a namespace
}

// TestPlainEnglishInCode checks the comments, the texts and the names of functions, of the program and of its tests.
func TestPlainEnglishInCode(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, folder := range []string{"main.go", "api", "cmd", "controllers", "internal", "test", "hack", "config"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			// The words are in this package.
			case err == nil && entry.IsDir() && entry.Name() == "catalogue":
				return fs.SkipDir
			case err != nil || filepath.Ext(path) != ".go":
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

// capital matches the letters at which the words of an identifier begin.
var capital = regexp.MustCompile(`[A-Z]`)

func checkWords(t *testing.T, path string) error {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	check := func(position token.Pos, text string) {
		for _, word := range outOfUse.FindAllString(text, -1) {
			if slices.ContainsFunc(ordinaryEnglish, func(part string) bool { return strings.Contains(text, part) }) {
				continue
			}
			place := files.Position(position)
			page, _ := filepath.Rel(root, place.Filename)
			t.Errorf("%s:%d: %q: use another word, see the glossary of the project", page, place.Line, word)
		}
	}
	for _, group := range file.Comments {
		check(group.Pos(), inOneLine(group.Text()))
	}
	for _, decl := range file.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			check(function.Pos(), capital.ReplaceAllString(function.Name.Name, " $0"))
		}
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
