// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// mode is the use of a template's output.
type mode int

const (
	textMode mode = iota // a name
	leafMode             // a string of spec.values
	yamlMode             // YAML, read after rendering
)

// Names that this package adds to a parsed template.
const (
	rootName  = "helmop"
	emitFunc  = "__emit"  // the last command of each action that prints
	stepFunc  = "__step"  // the first action of each loop round and each defined template
	rangeFunc = "__range" // the last command of what a loop goes through
)

type compiler struct {
	left, right string
	// sourceBytes and sourceNodes are the size of the values sources so far.
	sourceBytes, sourceNodes int
	// parsed is the number of nodes of the templates so far, with costTemplate for each template.
	parsed int
}

// textTemplate is one parsed template.
type textTemplate struct {
	place
	mode      mode
	literal   string // set if trees is nil: a text without actions
	trees     map[string]*parse.Tree
	functions []string // used functions
	constants map[string]bool
	mutates   bool // it calls a function that changes its argument
	typed     bool // it is one action and nothing else
}

func (c *compiler) nameTemplate(text string, at place) (*textTemplate, error) {
	if text == "" {
		return nil, at.errorf(ReasonInvalidTemplate, 0, "is empty")
	}
	return c.template(text, at, textMode)
}

// template parses text, and inserts the calls that enforce the limits.
func (c *compiler) template(text string, at place, m mode) (*textTemplate, error) {
	if len(text) > maxTemplateBytes {
		return nil, at.errorf(ReasonLimitExceeded, 0, "is larger than %d bytes", maxTemplateBytes)
	}
	if i := strings.IndexAny(text, placeholderMarks); i >= 0 {
		return nil, at.errorf(ReasonInvalidTemplate, 1+strings.Count(text[:i], "\n"),
			"has a character of the Unicode private use area (U+E000 or U+E001)")
	}
	t := &textTemplate{place: at, mode: m}
	if !strings.Contains(text, c.left) {
		t.literal = text
		return t, nil
	}
	trees, err := parse.Parse(rootName, text, c.left, c.right, knownNames)
	if err != nil {
		return nil, at.parseError(err)
	}
	root := trees[rootName]
	if root == nil || root.Root == nil {
		return t, nil
	}
	t.trees = trees
	t.typed = m == leafMode && isOneAction(root.Root)
	w := &walker{used: map[string]bool{}, calls: map[string][]string{}, constants: map[string]bool{}}
	for name, tree := range trees {
		w.current = name
		before := w.nodes
		w.list(tree.Root)
		if name != rootName {
			prependStep(tree.Root, w.nodes-before)
		}
	}
	if name, ok := w.recursive(); ok {
		return nil, at.errorf(ReasonInvalidTemplate, 0, "the template %q calls itself", shorten(name))
	}
	if w.method != "" {
		return nil, at.errorf(ReasonInvalidTemplate, 0, "calls the method %s, which is not available", w.method)
	}
	if c.parsed += costTemplate + w.nodes; c.parsed > maxParsed {
		return nil, at.errorf(ReasonLimitExceeded, 0, "is one of too many templates, or they are too large together")
	}
	t.constants = w.constants
	for name := range w.used {
		if f, ok := functions[name]; ok {
			t.functions = append(t.functions, name)
			t.mutates = t.mutates || f.mutates
		}
	}
	return t, nil
}

func isOneAction(l *parse.ListNode) bool {
	if len(l.Nodes) != 1 {
		return false
	}
	a, ok := l.Nodes[0].(*parse.ActionNode)
	return ok && len(a.Pipe.Decl) == 0
}

var (
	parseErrorShape   = regexp.MustCompile(`(?s)^template: ` + rootName + `:(\d+): (.*)$`)
	unknownFunction   = regexp.MustCompile(`^function "([^"]*)" not defined`)
	maxShownCause     = 200
	unavailableReason = "the output of a template must depend on the Cluster only, not on time, randomness, " +
		"files or the network"
)

// parseError returns the error for a template that does not parse. The message quotes at most a word of the template,
// and no data.
func (p place) parseError(err error) error {
	m := parseErrorShape.FindStringSubmatch(err.Error())
	if m == nil {
		return p.errorf(ReasonInvalidTemplate, 0, "does not parse")
	}
	line, _ := strconv.Atoi(m[1]) // the expression matches digits only
	// Other positions in the parser's message contain the name of the template: "started at helmop:2".
	cause := strings.ReplaceAll(m[2], rootName+":", "line ")
	if f := unknownFunction.FindStringSubmatch(cause); f != nil && unavailable[f[1]] {
		cause = fmt.Sprintf("the function %q is not available: %s", f[1], unavailableReason)
	}
	return p.errorf(ReasonInvalidTemplate, line, "%s", shorten(cause))
}

func shorten(s string) string { return truncate.Text(s, maxShownCause) }

// walker visits the nodes of a parsed template.
type walker struct {
	used      map[string]bool     // names of functions
	constants map[string]bool     // string constants
	calls     map[string][]string // template → templates it calls
	current   string
	nodes     int    // number of visited nodes
	method    string // a method that templates must not call
}

func (w *walker) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		w.nodes++
		switch t := n.(type) {
		case *parse.ActionNode:
			w.pipe(t.Pipe)
			if len(t.Pipe.Decl) == 0 {
				t.Pipe.Cmds = append(t.Pipe.Cmds, command(t.Pipe.Pos, emitFunc))
			}
		case *parse.IfNode:
			w.branch(&t.BranchNode)
		case *parse.WithNode:
			w.branch(&t.BranchNode)
		case *parse.RangeNode:
			before := w.nodes
			w.branch(&t.BranchNode)
			t.Pipe.Cmds = append(t.Pipe.Cmds, command(t.Pipe.Pos, rangeFunc))
			prependStep(t.List, w.nodes-before)
		case *parse.TemplateNode:
			w.pipe(t.Pipe)
			w.calls[w.current] = append(w.calls[w.current], t.Name)
		}
	}
}

func (w *walker) branch(b *parse.BranchNode) {
	w.pipe(b.Pipe)
	w.list(b.List)
	w.list(b.ElseList)
}

func (w *walker) pipe(p *parse.PipeNode) {
	if p == nil {
		return
	}
	for _, c := range p.Cmds {
		for _, a := range c.Args {
			w.nodes++
			switch t := a.(type) {
			case *parse.FieldNode:
				w.fields(t.Ident)
			case *parse.VariableNode:
				w.fields(t.Ident)
			case *parse.IdentifierNode:
				w.used[t.Ident] = true
			case *parse.StringNode:
				w.constants[t.Text] = true
			case *parse.PipeNode:
				w.pipe(t)
			case *parse.ChainNode:
				w.fields(t.Field)
				if inner, ok := t.Node.(*parse.PipeNode); ok {
					w.pipe(inner)
				}
			}
		}
	}
}

// fields notes the names after dots that only methods have. These methods make versions of any length, and no function
// call is charged for them.
func (w *walker) fields(names []string) {
	for _, name := range names {
		if name == "SetPrerelease" || name == "SetMetadata" {
			w.method = name
		}
	}
}

// prependStep charges for the nodes of l each time that l is executed.
func prependStep(l *parse.ListNode, nodes int) {
	count := &parse.NumberNode{NodeType: parse.NodeNumber, Pos: l.Pos, IsInt: true, Int64: int64(nodes),
		Text: strconv.Itoa(nodes)}
	step := &parse.ActionNode{
		NodeType: parse.NodeAction, Pos: l.Pos,
		Pipe: &parse.PipeNode{
			NodeType: parse.NodePipe, Pos: l.Pos, Cmds: []*parse.CommandNode{command(l.Pos, stepFunc, count)},
		},
	}
	l.Nodes = append([]parse.Node{step}, l.Nodes...)
}

func command(at parse.Pos, function string, args ...parse.Node) *parse.CommandNode {
	return &parse.CommandNode{
		NodeType: parse.NodeCommand, Pos: at,
		Args: append([]parse.Node{parse.NewIdentifier(function).SetPos(at)}, args...),
	}
}

// recursive returns a template that calls itself, if there is one. Without recursion, the calls form a tree, and the
// charges for steps limit its size.
func (w *walker) recursive() (string, bool) {
	const visiting, done = 1, 2
	state := map[string]int{}
	var visit func(string) bool
	visit = func(name string) bool {
		switch state[name] {
		case visiting:
			return true
		case done:
			return false
		}
		state[name] = visiting
		for _, callee := range w.calls[name] {
			if visit(callee) {
				return true
			}
		}
		state[name] = done
		return false
	}
	for name := range w.calls {
		if visit(name) {
			return name, true
		}
	}
	return "", false
}
