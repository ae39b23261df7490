// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"maps"
	"reflect"
	"slices"

	"github.com/Masterminds/sprig/v3"
)

// function is a function for templates.
type function struct {
	// call is the function. If bind is set, call returns the function for one rendering.
	call reflect.Value
	bind func(*run) any

	// A shallow function reads only the top level of its arguments. It returns a part of them or a small value. Its
	// cost depends only on the texts among the arguments, and its result is not measured.
	shallow bool

	// A layout function receives markup as markup. All other functions receive markup as plain text.
	layout bool

	// mutates is true if the function changes an argument.
	mutates bool

	// number, if set, converts an argument that is the text of a number, and refuses other texts. The functions of sprig
	// would use 0 for a text that is not a number, and read "010" as 8.
	number func(any) (any, *fault)

	// cost returns the extra cost of a call, in addition to the size of arguments and result. size returns an upper
	// limit of the result before the call.
	cost, size func(args []any) int
}

// The pure functions of sprig, in groups. The functions of one group share a rule for their cost. This is a list of
// allowed functions: an update of sprig cannot add a function without a review. A test checks that each function of
// sprig is in this list or in unavailable.
var (
	sprigShallow = []string{
		"get", "hasKey", "dig", "default", "empty", "coalesce", "all", "any", "ternary", "kindIs", "kindOf",
		"typeIs", "typeIsLike", "typeOf", "first", "mustFirst", "last", "mustLast",
	}
	sprigIntegers = []string{
		"int", "int64", "add", "add1", "sub", "div", "mod", "mul", "max", "biggest", "min", "duration",
	}
	sprigFloats = []string{"float64", "maxf", "minf", "ceil", "floor", "round"}
	// sprigDecimals have arbitrary precision.
	sprigDecimals = []string{"add1f", "addf", "subf", "divf", "mulf"}
	sprigMeasured = []string{
		"abbrev", "abbrevboth", "trunc", "upper", "lower", "title", "untitle", "substr",
		"trimSuffix", "trimPrefix", "nospace", "initials", "swapcase", "snakecase", "camelcase", "kebabcase", "contains",
		"hasPrefix", "hasSuffix", "cat", "plural", "sha1sum", "sha256sum", "sha512sum", "adler32sum",
		"toStrings", "sortAlpha", "compact", "mustCompact",
		"deepCopy", "mustDeepCopy", "deepEqual", "base", "dir", "clean", "ext", "isAbs", "b64enc", "b32enc",
		"tuple", "list", "dict", "pluck", "pick", "omit", "append", "push", "mustAppend", "mustPush",
		"prepend", "mustPrepend", "rest", "mustRest", "initial", "mustInitial", "reverse", "mustReverse", "has",
		"mustHas", "slice", "mustSlice", "concat", "chunk", "mustChunk", "regexQuoteMeta",
		"urlParse", "urlJoin",
	}
	sprigCostly = map[string]func([]any) int{
		"trimall": trimmed, "trimAll": trimmed,
		"semver": versions, "semverCompare": versions,
		"uniq": square, "mustUniq": square, "without": square, "mustWithout": square,
		"regexMatch": matching, "mustRegexMatch": matching, "regexFind": matching, "mustRegexFind": matching,
		"regexFindAll": searching, "mustRegexFindAll": searching, "regexSplit": searching, "mustRegexSplit": searching,
	}
	sprigGrowing = map[string]func([]any) int{
		"repeat": repeated, "replace": replaced, "join": joined, "until": counted, "untilStep": stepped, "seq": stepped,
		"split": pieces, "splitList": pieces, "splitn": pieces, "wrap": wrapped, "wrapWith": wrapped,
	}
	sprigReplacing = []string{
		"regexReplaceAll", "mustRegexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAllLiteral",
	}
)

// unavailable are functions of sprig or Helm that templates cannot call. They need the clock, the time zone, the
// environment, files, the network, random numbers or Helm, or they take as much time as password hashing.
var unavailable = setOf(
	"now", "ago", "date", "date_in_zone", "date_modify", "dateInZone", "dateModify", "durationRound", "htmlDate",
	"htmlDateInZone", "must_date_modify", "mustDateModify", "mustToDate", "toDate", "unixEpoch",
	"env", "expandenv", "getHostByName", "osBase", "osClean", "osDir", "osExt", "osIsAbs",
	"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randInt", "randBytes", "shuffle", "uuidv4",
	"bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "buildCustomCert", "genCA", "genCAWithKey",
	"genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "encryptAES",
	"decryptAES", "hello", "include", "tpl", "lookup",
)

// functions are all functions for templates, without the comparisons and the logic of text/template.
var functions = allFunctions()

// knownNames are the names of functions for the parser.
var knownNames = parserNames()

func allFunctions() map[string]function {
	all := map[string]function{}
	generic := sprig.GenericFuncMap()
	generic["regexMatch"] = generic["mustRegexMatch"] // regexMatch would yield false for an invalid expression.
	add := func(name string, f function) {
		if fn, ok := generic[name]; ok {
			f.call = reflect.ValueOf(fn)
			all[name] = f
		}
	}
	for _, name := range sprigShallow {
		add(name, function{shallow: true})
	}
	for _, name := range sprigIntegers {
		add(name, function{number: integerIn})
	}
	for _, name := range sprigFloats {
		add(name, function{number: floatIn})
	}
	for _, name := range sprigDecimals {
		add(name, function{cost: decimals, number: floatIn})
	}
	for _, name := range sprigMeasured {
		add(name, function{})
	}
	for name, cost := range sprigCostly {
		add(name, function{cost: cost})
	}
	for name, size := range sprigGrowing {
		add(name, function{size: size})
	}
	for _, name := range sprigReplacing {
		add(name, function{cost: replacing, size: growth})
	}
	maps.Copy(all, ownFunctions())
	maps.Copy(all, comparisons())
	return all
}

// parserNames returns the names that a template may use. The parser does not use the values of the map.
func parserNames() map[string]any {
	names := map[string]any{}
	for name := range functions {
		names[name] = true
	}
	// These functions of text/template are not wrapped: they are shallow, and their errors contain only types. "call"
	// is not useful, because no value is a function.
	for _, name := range []string{"and", "or", "not", "len", "index"} {
		names[name] = true
	}
	return names
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
