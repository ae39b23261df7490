// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/template"

	"dario.cat/mergo"
	sigsyaml "sigs.k8s.io/yaml"
)

// ownFunctions returns replacements for some functions of sprig and text/template. The originals are not deterministic,
// hide their errors, quote data in errors, or cannot handle markup. ownFunctions also returns other functions that
// users of Helm expect.
func ownFunctions() map[string]function {
	own := map[string]function{
		"fromYaml":  {call: reflect.ValueOf(fromYAML), cost: yamlWork},
		"fromJson":  {call: reflect.ValueOf(fromJSON)},
		"keys":      {call: reflect.ValueOf(keys)},
		"values":    {call: reflect.ValueOf(valuesOf)},
		"toString":  {call: reflect.ValueOf(toString)},
		"set":       {call: reflect.ValueOf(set), mutates: true},
		"unset":     {call: reflect.ValueOf(unset), mutates: true, shallow: true},
		"print":     {call: reflect.ValueOf(fmt.Sprint)},
		"println":   {call: reflect.ValueOf(fmt.Sprintln)},
		"printf":    {call: reflect.ValueOf(printf), size: formatted},
		"atoi":      {call: reflect.ValueOf(strconv.Atoi)},
		"toDecimal": {call: reflect.ValueOf(fromOctal)},
		"b64dec":    {call: reflect.ValueOf(decodeWith(base64.StdEncoding.DecodeString, "base64"))},
		"b32dec":    {call: reflect.ValueOf(decodeWith(base32.StdEncoding.DecodeString, "base32"))},
		"html":      {call: reflect.ValueOf(template.HTMLEscaper)},
		"js":        {call: reflect.ValueOf(template.JSEscaper)},
		"urlquery":  {call: reflect.ValueOf(template.URLQueryEscaper)},

		"toYaml": {cost: yamlWork, bind: func(r *run) any {
			return func(v any) (any, error) { return r.write(v, encodeYAML) }
		}},
		"toJson":       {bind: func(r *run) any { return func(v any) (any, error) { return r.write(v, encodeJSONText) } }},
		"toPrettyJson": {bind: func(r *run) any { return func(v any) (any, error) { return r.write(v, encodePrettyJSON) } }},
		"quote":        {bind: func(r *run) any { return r.quoteWith(strconv.Quote, `"`) }},
		"squote":       {bind: func(r *run) any { return r.quoteWith(singleQuote, `'`) }},
		"required":     {bind: func(r *run) any { return r.required }, shallow: true},
		"fail":         {bind: func(r *run) any { return r.fail }, shallow: true},

		"trim": {layout: true, bind: func(r *run) any {
			return func(v any) (any, error) { return r.layout(v, strings.TrimSpace) }
		}},
		"indent": {layout: true, size: indentedSize, bind: func(r *run) any {
			return func(spaces int, v any) (any, error) { return r.layout(v, indentBy(spaces, "")) }
		}},
		"nindent": {layout: true, size: indentedSize, bind: func(r *run) any {
			return func(spaces int, v any) (any, error) { return r.layout(v, indentBy(spaces, "\n")) }
		}},
	}
	for _, name := range []string{"merge", "mustMerge"} {
		own[name] = function{call: reflect.ValueOf(mergeMaps), mutates: true}
	}
	for _, name := range []string{"mergeOverwrite", "mustMergeOverwrite"} {
		own[name] = function{call: reflect.ValueOf(mergeMapsOverwriting), mutates: true}
	}
	for alias, name := range map[string]string{
		"toRawJson": "toJson", "mustToJson": "toJson", "mustToRawJson": "toJson", "mustToPrettyJson": "toPrettyJson",
		"mustFromJson": "fromJson", "fromJsonArray": "fromJson", "fromYamlArray": "fromYaml",
	} {
		own[alias] = own[name]
	}
	return own
}

func encodeYAML(v any) (string, error) {
	data, err := encodeJSON(v)
	if err != nil {
		return "", err
	}
	data, err = sigsyaml.JSONToYAML([]byte(escapeForYAML(string(data))))
	if err != nil {
		return "", faultf(ReasonRenderFailed, "cannot write this as YAML")
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// escapeForYAML escapes the characters that are allowed in JSON strings but not in YAML.
func escapeForYAML(json string) string {
	forbidden := func(r rune) bool {
		return r >= 0x7f && r <= 0x9f || r == 0xfeff || r == 0xfffe || r == 0xffff
	}
	if strings.IndexFunc(json, forbidden) < 0 {
		return json
	}
	var b strings.Builder
	for _, r := range json {
		if forbidden(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func encodeJSONText(v any) (string, error) {
	data, err := encodeJSON(v)
	return string(data), err
}

func encodePrettyJSON(v any) (string, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", faultf(ReasonRenderFailed, "cannot write this as JSON")
	}
	return string(data), nil
}

// fromYAML parses any YAML value: "true" becomes a boolean. Helm's fromYaml parses only maps.
func fromYAML(text string) (any, error) { return new(yamlReader).read(text) }

// fromJSON parses any JSON value. Integers stay exact.
func fromJSON(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil || decoder.More() {
		return nil, faultf(ReasonRenderFailed, "the argument is not valid JSON")
	}
	return canonical(v)
}

// keys returns sorted keys. The order of sprig's function changes from call to call.
func keys(dicts ...map[string]any) []string {
	var all []string
	for _, d := range dicts {
		all = append(all, sortedKeys(d)...)
	}
	return all
}

// valuesOf returns the values in the order of their keys.
func valuesOf(dict map[string]any) []any {
	all := make([]any, 0, len(dict))
	for _, k := range sortedKeys(dict) {
		all = append(all, dict[k])
	}
	return all
}

func toString(v any) (string, error) {
	switch t := v.(type) {
	case nil:
		return "", faultf(ReasonMissingKey, "has no value to work on")
	case float64:
		text, err := formatFloat(t)
		s, _ := text.(string) // formatFloat returns text or an error
		return s, err
	}
	return fmt.Sprint(v), nil
}

// set stores a copy of the value. Without the copy, a map could contain itself and have no end.
func set(dict map[string]any, key string, value any) (map[string]any, error) {
	if dict == nil {
		return nil, faultf(ReasonMissingKey, "has no map to work on")
	}
	value, err := canonical(value)
	if err != nil {
		return nil, err
	}
	dict[key] = value
	return dict, nil
}

func unset(dict map[string]any, key string) map[string]any {
	delete(dict, key)
	return dict
}

// mergeMaps adds the keys that dst does not have. Like set, it copies the values.
func mergeMaps(dst map[string]any, sources ...map[string]any) (map[string]any, error) {
	return mergeWith(dst, sources)
}

func mergeMapsOverwriting(dst map[string]any, sources ...map[string]any) (map[string]any, error) {
	return mergeWith(dst, sources, mergo.WithOverride)
}

func mergeWith(dst map[string]any, sources []map[string]any, options ...func(*mergo.Config)) (map[string]any, error) {
	if dst == nil {
		return nil, faultf(ReasonMissingKey, "has no map to work on")
	}
	for _, source := range sources {
		taken, err := canonical(source)
		if err != nil {
			return nil, err
		}
		if err := mergo.Merge(&dst, taken, options...); err != nil {
			return nil, faultf(ReasonRenderFailed, "cannot merge these maps")
		}
	}
	return dst, nil
}

// printf returns an error where fmt would print its error text.
func printf(format string, args ...any) (string, error) {
	if !isFormat(format) {
		return "", faultf(ReasonRenderFailed, "has a verb that does not suit its argument")
	}
	out := fmt.Sprintf(format, args...)
	if strings.Contains(out, "%!") && !strings.Contains(format, "%!") && !anyContains(args, "%!") {
		return "", faultf(ReasonRenderFailed, "has a verb that does not suit its argument")
	}
	return out, nil
}

func anyContains(args []any, part string) bool {
	for _, a := range args {
		if strings.Contains(fmt.Sprint(a), part) {
			return true
		}
	}
	return false
}

// fromOctal returns the number in an octal text. The function of sprig yields 0 for other texts.
func fromOctal(v any) (int64, error) { return strconv.ParseInt(fmt.Sprint(v), 8, 64) }

// decodeWith returns a function that decodes text. The functions of sprig yield the text of the error.
func decodeWith(decode func(string) ([]byte, error), encoding string) func(string) (string, error) {
	return func(text string) (string, error) {
		data, err := decode(text)
		if err != nil {
			return "", faultf(ReasonRenderFailed, "the argument is not valid %s", encoding)
		}
		return string(data), nil
	}
}

func singleQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// quoteWith quotes each argument. In YAML, the quotes contain a placeholder, so no character needs an escape.
func (r *run) quoteWith(quote func(string) string, mark string) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		plain, text := make([]string, len(args)), make([]string, len(args))
		for i, a := range args {
			s, err := toString(a)
			if err != nil {
				return nil, err
			}
			plain[i] = quote(s)
			if r.mode == yamlMode {
				text[i] = mark + r.placeholder(s) + mark
			}
		}
		joined := strings.Join(plain, " ")
		if r.mode != yamlMode {
			return joined, nil
		}
		r.markups[markup(joined)] = strings.Join(text, " ")
		return markup(joined), nil
	}
}

// required and fail show their message if the message is a constant of the template. Other messages may contain data.
func (r *run) required(message string, v any) (any, error) {
	if s, isText := v.(string); v == nil || isText && s == "" {
		return nil, faultf(ReasonMissingKey, "%s", r.shown(message))
	}
	return v, nil
}

func (r *run) fail(message string) (any, error) {
	return nil, faultf(ReasonRenderFailed, "%s", r.shown(message))
}

func (r *run) shown(message string) string {
	if !r.constants[message] {
		return "its message is not shown, because it is not a constant of the template"
	}
	return shorten(message)
}

// indentBy is sprig's indent with a prefix.
func indentBy(spaces int, first string) func(string) string {
	pad := strings.Repeat(" ", max(spaces, 0))
	return func(s string) string { return first + pad + strings.ReplaceAll(s, "\n", "\n"+pad) }
}
