// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs checks the command lines in the documentation without running them. kubectl, clusterctl and kubectl
// helmop parse the command lines, and names in them must exist in this repository.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the root of the repository, relative to this package.
const root = "../.."

// block is a part of the documentation with commands.
type block struct {
	page string
	line int
	text string

	// inline is true for a command in a sentence, which may lack its arguments.
	inline bool
}

// pages returns the pages for users: the README, the pages below docs, and the examples.
func pages(t *testing.T) []string {
	t.Helper()
	return matches(t, "*.md", "docs/*.md", "docs/reference/*.md", "examples/*.md")
}

// exampleFiles returns the examples, which have commands in their comments.
func exampleFiles(t *testing.T) []string {
	t.Helper()
	return matches(t, "examples/*.yaml", "examples/features/*.yaml")
}

func matches(t *testing.T, patterns ...string) []string {
	t.Helper()
	var all []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			t.Fatalf("there is no %s (%v)", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

// blocks returns the fenced blocks of shell, the commands in blocks that show a prompt, and inline commands.
func blocks(page, text string) []block {
	var all []block
	fence, language, indent, start := false, "", "", 0
	var body []string
	for i, line := range strings.Split(text, "\n") {
		marker := strings.TrimSpace(line)
		switch {
		case !fence && strings.HasPrefix(marker, "```"):
			fence, language, start, body = true, strings.TrimPrefix(marker, "```"), i+2, nil
			indent, _, _ = strings.Cut(line, "```")
		case fence && marker == "```":
			fence = false
			if commands, ok := commandsOf(language, body); ok {
				all = append(all, block{page: page, line: start, text: commands})
			}
		case fence:
			body = append(body, strings.TrimPrefix(line, indent))
		default:
			for _, inline := range inlineCommand.FindAllStringSubmatch(line, -1) {
				all = append(all, block{page: page, line: i + 1, text: strings.ReplaceAll(inline[1], `\|`, "|"), inline: true})
			}
		}
	}
	return all
}

// commented returns the blocks of commands in the comments of an example. A block is indented, after an empty line.
// Its first line begins with the name of a program.
func commented(page, text string) []block {
	var all []block
	var body []string
	before := ""
	for i, line := range strings.Split(text+"\n", "\n") {
		command, ok := strings.CutPrefix(line, "#   ")
		switch {
		case ok && (len(body) > 0 || before == "#"):
			body = append(body, command)
		case len(body) > 0 && program.MatchString(body[0]):
			all = append(all, block{page: page, line: i + 1 - len(body), text: strings.Join(body, "\n")})
			body = nil
		default:
			body = nil
		}
		before = line
	}
	return all
}

// program matches a line that begins with the name of a program.
var program = regexp.MustCompile(`^ *[a-z]+ `)

// inlineCommand matches a command in a sentence or a table.
var inlineCommand = regexp.MustCompile("`((?:kubectl|clusterctl|make) [^`]+)`")

// commandsOf returns the commands of a fenced block. In a console, commands follow a prompt, and the other lines are
// output.
func commandsOf(language string, body []string) (string, bool) {
	switch language {
	case "sh", "bash":
		return strings.Join(body, "\n"), true
	case "console", "":
	default:
		return "", false
	}
	var commands []string
	continued := false
	for _, line := range body {
		command, prompt := strings.CutPrefix(line, "$ ")
		if prompt || continued {
			commands = append(commands, command)
			continued = strings.HasSuffix(command, `\`)
		}
	}
	return strings.Join(commands, "\n"), len(commands) > 0
}

// TestCommands checks every command line in the documentation.
func TestCommands(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	checked := 0
	for _, page := range append(pages(t), exampleFiles(t)...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name, _ := filepath.Rel(root, page)
		find := blocks
		if filepath.Ext(page) == ".yaml" {
			find = commented
		}
		for _, b := range find(filepath.ToSlash(name), string(text)) {
			commands, errs := c.block(t, b)
			checked += commands
			for _, err := range errs {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
		}
	}
	t.Logf("%d commands", checked)
	if checked < 100 {
		t.Errorf("%d commands in the documentation, expected 100 or more: does the test still find them?", checked)
	}
}

// TestBrokenCommands checks that the checker finds errors.
func TestBrokenCommands(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	for name, test := range map[string]struct{ text, want string }{
		"an unknown verb":              {"kubectl gett hop", "unknown command"},
		"an unknown flag":              {"kubectl get hop --al", "unknown flag"},
		"an unknown resource":          {"kubectl get hellop calico", `no resource "hellop"`},
		"one of several resources":     {"kubectl get hop,hopp", `no resource "hopp"`},
		"a resource with a name":       {"kubectl annotate hopp/calico x=y", `no resource "hopp"`},
		"an ambiguous resource":        {"kubectl delete helmop calico", "Fleet"},
		"all of an ambiguous kind":     {"kubectl delete helmops --all -A", "Fleet"},
		"an annotation of such a kind": {"kubectl annotate helmop/calico x=y", "Fleet"},
		"a patch of such a kind":       {`kubectl patch helmop calico -p '{"spec":{"paused":true}}'`, "Fleet"},
		"a field that does not exist":  {`kubectl patch hop calico --type=merge -p '{"spec":{"pause":true}}'`, "pause"},
		"an unknown condition":         {"kubectl wait hop/calico --for=condition=Redy", `no condition "Redy"`},
		"an unknown annotation": {"kubectl annotate hop calico addons.cluster.x-k8s.io/retry=1",
			"no annotation or label"},
		"an unknown target":          {"make imag", `no target "imag"`},
		"an unknown variable":        {"make image TAGG=v1", `no variable "TAGG"`},
		"an unknown command":         {"kubectl helmop pus ./chart oci://registry.example.com/chart", `no command "pus"`},
		"an unknown flag of helmop":  {"kubectl helmop push ./c oci://registry.example.com/c --tagg x", "unknown flag"},
		"too few arguments":          {"kubectl helmop tag oci://registry.example.com/c:v1", "arguments"},
		"an unknown clusterctl flag": {"clusterctl init --addons helmop", "unknown flag"},
		"a missing file":             {"kubectl apply -f examples/calyco.yaml", "examples/calyco.yaml"},
		"a missing package":          {"go run ./test/demos", "test/demos"},
		"an unknown program":         {"kubctl get hop", `unknown program "kubctl"`},
		"a quote without an end":     {"kubectl get hop 'calico", "quote"},
		"in a substitution":          {`echo "$(kubectl get hopp)"`, `no resource "hopp"`},
		"after a pipe":               {"echo x | kubectl apply --fil -", "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, errs := c.block(t, block{page: "page.md", line: 1, text: test.text})
			if got := fmt.Sprint(errs); !strings.Contains(got, test.want) {
				t.Errorf("%s: got %v, want %q", test.text, got, test.want)
			}
		})
	}
}

// TestBlocks checks which texts are commands.
func TestBlocks(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{
		"Use `kubectl get hop` or `helm list`.",
		"```sh", "make demo", "```",
		"```console", "$ kubectl get hop \\", "    -o wide", "NAME", "```",
		"```", "HelmOp ── no command", "```",
		"```yaml", "kubectl: x", "```",
		"1. In a list:", "   ```console", "   $ make test", "   ok", "   ```",
	}, "\n")
	var got []string
	for _, b := range blocks("page.md", text) {
		got = append(got, fmt.Sprintf("%d %s", b.line, b.text))
	}
	want := []string{"1 kubectl get hop", "3 make demo", "6 kubectl get hop \\\n    -o wide", "18 make test"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}
