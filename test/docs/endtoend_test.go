// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the page of the end-to-end tests")

const (
	endToEndFolder = "../e2e"
	endToEndPage   = "../../docs/reference/e2e-tests.md"
	pageWidth      = 120
)

// ownEnvironments says why a test cannot share an environment with others. An environment takes 3 seconds of a core to
// start, and one more for each minute.
var ownEnvironments = map[string]string{
	"TestBootstrap":                            "HelmOp is installed from a registry, and Pods of its Deployment run",
	"TestBootstrapMove":                        "two management clusters; HelmOp is installed and removed",
	"TestClusterctlUpgrade":                    "HelmOp is installed, upgraded and removed with its kinds",
	"TestEachPermissionIsNeeded":               "takes permissions of the manager away",
	"TestFairShares":                           "few workers, and low limits of requests to registries and of memory",
	"TestFleet":                                "counts all requests of the manager, and restarts it",
	"TestHostileChart":                         "a limit of the manager's memory",
	"TestHostileServers":                       "a limit of the manager's memory",
	"TestHostileUser":                          "a limit of the manager's memory",
	"TestManagementCluster":                    "another set of components, `config/management-cluster`",
	"TestManagerLogs":                          "controllers that create the Pods of the manager",
	"TestManagerRestartContinuesActions":       "kills managers",
	"TestMigrateCAAPH":                         "CAAPH reconciles the Clusters of all namespaces, and has webhooks",
	"TestMigrateFleet":                         "the kinds of Fleet",
	"TestMigrateFleetReal":                     "the controllers of Fleet serve all namespaces",
	"TestMigrateFlux":                          "the controllers of Flux serve all namespaces",
	"TestMoreUnresponsiveClustersThanWorkers":  "a manager with two workers",
	"TestMove":                                 "two management clusters",
	"TestPublishedRelease":                     "HelmOp is installed, upgraded and removed with its kinds",
	"TestReadOnlyRootFileSystem":               "the only manager is a process with a read-only root file system",
	"TestRecords":                              "a flag of the manager is the default of all HelmOps for records",
	"TestRolloutContinuesAfterManagerIsKilled": "kills managers",
	"TestRuntimeExtension":                     "a manager with the flags of the Runtime Extension",
	"TestSharding":                             "several managers, each with its shard",
	"TestSource":                               "files of credentials that flags of the manager name",
	"TestSourceFaults":                         "a short timeout for registries, and a limit of the manager's memory",
}

// ownTargets has the targets of the Makefile that run tests which `make test` skips.
var ownTargets = map[string]string{
	"TestEachPermissionIsNeeded": "test-permissions", "TestMigrateFleetReal": "test-migrations",
	"TestMigrateFlux": "test-migrations", "TestPublicCharts": "test-charts", "TestPublishedRelease": "test-release",
}

// endToEndTest is a test of the end-to-end suite, as its source describes it.
type endToEndTest struct {
	name, file, text string
	own              bool
	// skips is set if a test skips itself unless a variable is set.
	skips bool
	parts []string
}

// TestEndToEndTests compares the page of the end-to-end tests with their source. With -update, it writes the page.
func TestEndToEndTests(t *testing.T) {
	t.Parallel()
	tests := endToEndTests(t)
	if len(tests) < 60 {
		t.Fatalf("%d end-to-end tests, expected 60 or more: does the test still find them?", len(tests))
	}
	for _, test := range tests {
		if test.text == "" {
			t.Errorf("%s in test/e2e/%s has no comment that says what it covers", test.name, test.file)
		}
		if _, reason := ownEnvironments[test.name]; reason != test.own {
			t.Errorf("%s starts an environment of its own: %t; ownEnvironments has a reason: %t", test.name, test.own, reason)
		}
		if _, target := ownTargets[test.name]; target != test.skips {
			t.Errorf("%s skips itself unless a variable is set: %t; ownTargets has a target: %t", test.name, test.skips,
				target)
		}
	}
	page := endToEndText(tests)
	if *update {
		err := os.WriteFile(endToEndPage, []byte(page), 0o644) //nolint:gosec // A page of the documentation.
		if err != nil {
			t.Fatal(err)
		}
	}
	if read(t, endToEndPage) != page {
		t.Errorf("%s differs from the tests: run go test ./test/docs -run '^TestEndToEndTests$' -args -update", endToEndPage)
	}
}

// endToEndTests reads the tests, sorted by name.
func endToEndTests(t *testing.T) []*endToEndTest {
	t.Helper()
	source := readPackage(t, endToEndFolder)
	var tests []*endToEndTest
	for _, function := range source.functions {
		name := function.Name.Name
		if function.Recv != nil || !strings.HasPrefix(name, "Test") || name == "TestMain" {
			continue
		}
		test := &endToEndTest{name: name, file: source.fileOf(function), text: paragraph(function.Doc.Text())}
		for _, reached := range source.reachable(function) {
			test.own = test.own || reached.Name.Name == "ownEnvironment"
			ast.Inspect(reached, func(node ast.Node) bool {
				if call, ok := node.(*ast.CallExpr); ok {
					test.add(call, reached == function || strings.HasPrefix(reached.Name.Name, "begin"))
				}
				return true
			})
		}
		tests = append(tests, test)
	}
	slices.SortFunc(tests, func(a, b *endToEndTest) int { return strings.Compare(a.name, b.name) })
	return tests
}

// add notes a call that begins a part of the test, or that skips the test at its beginning.
func (test *endToEndTest) add(call *ast.CallExpr, beginning bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if beginning && method.Sel.Name == "Skipf" {
		test.skips = test.skips || slices.ContainsFunc(call.Args, namesVariable)
	}
	if !slices.Contains([]string{"step", "part", "Run"}, method.Sel.Name) || len(call.Args) != 2 {
		return
	}
	if name, ok := call.Args[0].(*ast.BasicLit); ok && name.Kind == token.STRING {
		text, err := strconv.Unquote(name.Value)
		if err == nil && !slices.Contains(test.parts, text) {
			test.parts = append(test.parts, text)
		}
	}
}

// namesVariable reports whether an expression is a constant with the name of a variable of the environment.
func namesVariable(expression ast.Expr) bool {
	if selector, ok := expression.(*ast.SelectorExpr); ok {
		expression = selector.Sel
	}
	name, ok := expression.(*ast.Ident)
	return ok && strings.HasSuffix(name.Name, "Env")
}

func paragraph(text string) string { return strings.Join(strings.Fields(text), " ") }

// endToEndText returns the page.
func endToEndText(tests []*endToEndTest) string {
	var page strings.Builder
	page.WriteString("# End-to-end tests\n\n" +
		"<!-- Generated by `go test ./test/docs -run TestEndToEndTests -args -update` from the comments and the names of\n" +
		"parts in test/e2e. Change the texts there, not this page. -->\n\n" +
		"This page lists what each end-to-end test covers. All tests run HelmOp on real API servers and a real registry.\n" +
		"[What keeps the tests fast](../development.md#what-keeps-the-tests-fast) describes the environments, and\n" +
		"[Levels of tests](../development.md#levels-of-tests) what other tests cover.\n\n" +
		"## Tests with their own environment\n\n" +
		"All other tests share one environment, each in its own namespace.\n\n| test | why it shares none |\n|---|---|\n")
	for _, test := range tests {
		if test.own {
			fmt.Fprintf(&page, "| `%s` | %s |\n", test.name, ownEnvironments[test.name])
		}
	}
	for _, test := range tests {
		fmt.Fprintf(&page, "\n## %s\n\n", test.name)
		if target := ownTargets[test.name]; target != "" {
			fmt.Fprintf(&page, "Run by `make %s`.\n\n", target)
		}
		page.WriteString(wrapped(test.text))
		if len(test.parts) > 0 {
			page.WriteString("\n")
		}
		for _, part := range test.parts {
			fmt.Fprintf(&page, "- \"%s\"\n", part)
		}
	}
	return page.String()
}

// wrapped breaks a text into lines.
func wrapped(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > pageWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

// goPackage are the functions of a package, by name.
type goPackage struct {
	files     *token.FileSet
	functions []*ast.FuncDecl
	byName    map[string][]*ast.FuncDecl
}

func readPackage(t *testing.T, folder string) *goPackage {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	p := &goPackage{files: token.NewFileSet(), byName: map[string][]*ast.FuncDecl{}}
	for _, name := range names {
		file, err := parser.ParseFile(p.files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok {
				p.functions = append(p.functions, function)
				p.byName[function.Name.Name] = append(p.byName[function.Name.Name], function)
			}
		}
	}
	return p
}

func (p *goPackage) fileOf(function *ast.FuncDecl) string {
	return filepath.Base(p.files.Position(function.Pos()).Filename)
}

// reachable returns a function and the functions of the package that it calls or passes on, in the order of their use.
// If several functions have one name, it takes the functions in the same file.
func (p *goPackage) reachable(from *ast.FuncDecl) []*ast.FuncDecl {
	all := []*ast.FuncDecl{from}
	for i := 0; i < len(all); i++ {
		use := func(expression ast.Expr) {
			for _, function := range p.named(expression, p.fileOf(all[i])) {
				if !slices.Contains(all, function) {
					all = append(all, function)
				}
			}
		}
		ast.Inspect(all[i].Body, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				use(node.Fun)
				for _, argument := range node.Args {
					use(argument)
				}
			case *ast.CompositeLit:
				for _, element := range node.Elts {
					use(element)
				}
			case *ast.KeyValueExpr:
				use(node.Value)
			}
			return true
		})
	}
	return all
}

// named returns the functions that an expression in a file may name.
func (p *goPackage) named(expression ast.Expr, file string) []*ast.FuncDecl {
	if selector, ok := expression.(*ast.SelectorExpr); ok {
		expression = selector.Sel
	}
	name, ok := expression.(*ast.Ident)
	if !ok {
		return nil
	}
	functions := p.byName[name.Name]
	if len(functions) == 1 {
		return functions
	}
	return slices.DeleteFunc(slices.Clone(functions), func(other *ast.FuncDecl) bool { return p.fileOf(other) != file })
}
