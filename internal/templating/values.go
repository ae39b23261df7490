// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/truncate"
)

// node is a part of spec.values or spec.postRender: a template, a map or list with templates, or a literal.
type node interface {
	// render returns the value for one Cluster in canonical form. The value shares nothing with the node.
	render(r *run) (any, error)
}

type (
	literalNode struct{ value any }
	listNode    []node
	mapNode     struct {
		keys   []string // sorted: if there are two errors, the same error is reported each time
		values []node
	}
)

func (n literalNode) render(*run) (any, error) { return n.value, nil }

func (n listNode) render(r *run) (any, error) {
	list := make([]any, len(n))
	for i := range n {
		var err error
		if list[i], err = n[i].render(r); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (n mapNode) render(r *run) (any, error) {
	m := make(map[string]any, len(n.keys))
	for i, k := range n.keys {
		v, err := n.values[i].render(r)
		if err != nil {
			return nil, err
		}
		m[k] = v
	}
	return m, nil
}

// document compiles a JSON object that is a part of a spec.
type document struct {
	*compiler

	// at is the field of the object.
	at place
	// leaf compiles a string, with or without a template.
	leaf func(text string, at place) (node, error)
	// keyHint names the alternative to a template in a key.
	keyHint string
}

// values compiles the values. The parameter at is the place of the values. The node of empty data is nil.
func (c *compiler) values(data []byte, at place) (node, error) {
	d := document{compiler: c, at: at, keyHint: "use spec.valuesTemplate for keys that depend on the Cluster"}
	d.leaf = func(text string, at place) (node, error) {
		if !strings.Contains(text, c.left) {
			return literalNode{text}, nil
		}
		return c.template(text, at, leafMode)
	}
	return d.compile(data)
}

// compile compiles a JSON object. The node of empty data is nil.
func (d document) compile(data []byte) (node, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	if len(data) > maxDocumentBytes {
		return nil, d.at.errorf(ReasonLimitExceeded, 0, "is larger than %d bytes", maxDocumentBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, d.at.errorf(ReasonInvalidValues, 0, "is not valid JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, d.at.errorf(ReasonInvalidValues, 0, "is more than one JSON value")
	}
	v, err := canonical(v)
	if err != nil {
		return nil, d.at.at(err, ReasonInvalidValues)
	}
	switch m := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return d.node(m, "")
	}
	return nil, d.at.errorf(ReasonInvalidValues, 0, "is not a map of values")
}

// place returns the place of a key of the document.
func (d document) place(key string) place {
	at := d.at
	at.key = key
	return at
}

func (d document) node(v any, key string) (node, error) {
	switch t := v.(type) {
	case string:
		return d.leaf(t, d.place(key))
	case []any:
		list := make(listNode, len(t))
		for i := range t {
			var err error
			if list[i], err = d.node(t[i], key+"["+strconv.Itoa(i)+"]"); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		m := mapNode{keys: make([]string, 0, len(t))}
		for k := range t {
			m.keys = append(m.keys, k)
		}
		slices.Sort(m.keys)
		for _, k := range m.keys {
			path := joinKey(key, k)
			if strings.Contains(k, d.left) {
				return nil, d.place(path).errorf(ReasonInvalidTemplate, 0, "a key is not a template; %s", d.keyHint)
			}
			n, err := d.node(t[k], path)
			if err != nil {
				return nil, err
			}
			m.values = append(m.values, n)
		}
		return m, nil
	}
	return literalNode{v}, nil
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// maxShownKey is the maximum length of a key in a message.
const maxShownKey = 80

// joinKey returns the path of key k in the map at path.
func joinKey(path, k string) string {
	k = truncate.Text(k, maxShownKey)
	switch {
	case !plainKey.MatchString(k):
		return path + "[" + strconv.Quote(k) + "]"
	case path == "":
		return k
	}
	return path + "." + k
}
