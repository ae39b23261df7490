// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package catalogue

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // It registers flags.

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/manager"
)

var root = filepath.Join("..", "..")

// entries are the names in the first column of the tables of a page.
type entries map[string]bool

var (
	tableRow   = regexp.MustCompile("(?m)^\\| (`[^|]*) \\|")
	inlineCode = regexp.MustCompile("`([^`]+)`")
)

// entriesOf reads the tables of a page. If section is not empty, it reads only those under this heading.
func entriesOf(t *testing.T, page, section string) entries {
	t.Helper()
	text := read(t, page)
	if section != "" {
		_, rest, ok := strings.Cut(text, "\n## "+section+"\n")
		if !ok {
			t.Fatalf("%s has no section %q", page, section)
		}
		text, _, _ = strings.Cut(rest, "\n## ")
	}
	all := entries{}
	for _, row := range tableRow.FindAllStringSubmatch(text, -1) {
		for _, name := range inlineCode.FindAllStringSubmatch(row[1], -1) {
			all[name[1]] = true
		}
	}
	return all
}

// check compares the names of the source with the entries of a page. kind is the kind of the names.
func (e entries) check(t *testing.T, page, kind string, names []string) {
	t.Helper()
	if len(names) == 0 {
		t.Fatalf("the source has no %s: the test looks in the wrong place", kind)
	}
	for _, name := range names {
		if !e[name] {
			t.Errorf("%s has no entry for the %s %q", page, kind, name)
		}
	}
}

// checkStale reports entries of a page that do not exist in the source.
func (e entries) checkStale(t *testing.T, page, kind string, names []string) {
	t.Helper()
	for name := range e {
		if !slices.Contains(names, name) {
			t.Errorf("%s has an entry for the %s %q, which the source does not have", page, kind, name)
		}
	}
}

func TestConditionsAndReasons(t *testing.T) {
	t.Parallel()
	const page = "docs/reference/conditions.md"
	types := append(entriesOf(t, page, "Conditions of a HelmOp").names(),
		entriesOf(t, page, "Conditions of a HelmOpRelease").names()...)
	conditions := constants(t, "Condition")
	documented := entries{}
	for _, name := range types {
		documented[name] = true
	}
	documented.check(t, page, "condition", conditions)
	documented.checkStale(t, page, "condition", conditions)

	reasons := constants(t, "Reason")
	documented = entriesOf(t, page, "Reasons")
	documented.check(t, page, "reason", reasons)
	documented.checkStale(t, page, "reason", reasons)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const page = "docs/reference/events.md"
	events := constants(t, "Event")
	documented := entriesOf(t, page, "")
	documented.check(t, page, "Event", events)
	// The reasons of conditions are also reasons of Events.
	documented.checkStale(t, page, "Event", append(events, constants(t, "Reason")...))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	const page = "docs/reference/metrics.md"
	metricName := regexp.MustCompile(`^helmop_[a-z_]+$`)
	var names []string
	for _, folder := range []string{"controllers", "internal"} {
		for _, file := range sources(t, folder) {
			ast.Inspect(file, func(node ast.Node) bool {
				if text := literal(node); metricName.MatchString(text) {
					names = append(names, text)
				}
				return true
			})
		}
	}
	documented := entriesOf(t, page, "")
	documented.check(t, page, "metric", names)
	for name := range documented {
		if metricName.MatchString(name) && !slices.Contains(names, name) {
			t.Errorf("%s has an entry for the metric %q, which the source does not have", page, name)
		}
	}
}

func TestFlagsOfTheManager(t *testing.T) {
	t.Parallel()
	const page = "docs/reference/flags.md"
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	(&manager.Options{}).AddFlags(fs)
	logsv1.AddFlags(logs.NewOptions(), fs)
	var names []string
	fs.VisitAll(func(flag *pflag.Flag) { names = append(names, "--"+flag.Name) })
	documented := entriesOf(t, page, "")
	documented.check(t, page, "flag", names)
	// The flag --version is added by main.
	documented.checkStale(t, page, "flag", append(names, "--version"))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	const page = "docs/cli.md"
	// The arguments of a command are in upper case, or URLs.
	first := regexp.MustCompile(`^[a-z-]+( [a-z]+($| ))?`)
	documented := entries{}
	for name := range entriesOf(t, page, "Commands") {
		documented[strings.TrimSpace(first.FindString(name))] = true
	}
	documented.check(t, page, "command", commands(t))
}

// commands returns the commands of kubectl helmop from its help. All commands of a shell's completion count as one.
func commands(t *testing.T, parents ...string) []string {
	t.Helper()
	var out bytes.Buffer
	if code := cli.Run(t.Context(), append(slices.Clone(parents), "--help"),
		cli.Streams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out}); code != 0 {
		t.Fatalf("the help of %v: exit code %d\n%s", parents, code, out.String())
	}
	_, list, ok := strings.Cut(out.String(), "Available Commands:\n")
	if !ok {
		return []string{strings.Join(parents, " ")}
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var all []string
	for line := range strings.Lines(list) {
		switch name := strings.Fields(line)[0]; name {
		case "help":
		case "completion":
			all = append(all, name)
		default:
			all = append(all, commands(t, append(slices.Clone(parents), name)...)...)
		}
	}
	return all
}

// constants returns the values of the exported string constants of the API whose names end with a suffix.
func constants(t *testing.T, suffix string) []string {
	t.Helper()
	var values []string
	for _, file := range sources(t, "api/v1alpha1") {
		for _, decl := range file.Decls {
			general, ok := decl.(*ast.GenDecl)
			if !ok || general.Tok != token.CONST {
				continue
			}
			for _, spec := range general.Specs {
				value := spec.(*ast.ValueSpec)
				for i, name := range value.Names {
					if name.IsExported() && strings.HasSuffix(name.Name, suffix) && i < len(value.Values) {
						values = append(values, literal(value.Values[i]))
					}
				}
			}
		}
	}
	return values
}

// sources parses the Go files of a folder and its subfolders, without tests.
func sources(t *testing.T, folder string) []*ast.File {
	t.Helper()
	var files []*ast.File
	err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		files = append(files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// literal returns the value of a string literal, or an empty string for any other node.
func literal(node ast.Node) string {
	basic, ok := node.(*ast.BasicLit)
	if !ok || basic.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(basic.Value)
	if err != nil {
		return ""
	}
	return text
}

func (e entries) names() []string {
	var all []string
	for name := range e {
		all = append(all, name)
	}
	return all
}
