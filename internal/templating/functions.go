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
	// call is the function itself. If bind is set, it returns the function for one rendering instead.
	call reflect.Value
	bind func(*run) any

	// shallow functions read only the top level of their arguments, and return a part of them or a
	// small value. Their cost does not depend on the size of the argument, and their result is not
	// measured.
	shallow bool

	// layout functions receive markup as markup; all others receive it as plain text.
	layout bool

	// mutates means that the function changes an argument.
	mutates bool

	// cost returns the cost of a call in addition to the size of arguments and result. size bounds the
	// result before the call.
	cost, size func(args []any) int
}

// The pure functions of sprig, by the way in which their cost is bounded. It is a list of allowed functions, so that an
// update of sprig cannot add an unreviewed function. A test checks that each function of sprig is either in this list
// or in unavailable.
var (
	sprigShallow = []string{
		"get", "hasKey", "dig", "default", "empty", "coalesce", "all", "any", "ternary", "kindIs", "kindOf",
		"typeIs", "typeIsLike", "typeOf", "first", "mustFirst", "last", "mustLast", "int", "int64", "float64", "atoi",
		"toDecimal", "add", "add1", "sub", "div", "mod", "mul", "max", "biggest", "min", "maxf", "minf", "ceil",
		"floor", "round",
	}
	sprigMeasured = []string{
		"abbrev", "abbrevboth", "trunc", "upper", "lower", "title", "untitle", "substr", "trimall", "trimAll",
		"trimSuffix", "trimPrefix", "nospace", "initials", "swapcase", "snakecase", "camelcase", "kebabcase", "contains",
		"hasPrefix", "hasSuffix", "cat", "plural", "sha1sum", "sha256sum", "sha512sum", "adler32sum", "split",
		"splitList", "toStrings", "sortAlpha", "compact", "mustCompact",
		"deepCopy", "mustDeepCopy", "deepEqual", "base", "dir", "clean", "ext", "isAbs", "b64enc", "b64dec", "b32enc",
		"b32dec", "tuple", "list", "dict", "pluck", "pick", "omit", "append", "push", "mustAppend", "mustPush",
		"prepend", "mustPrepend", "rest", "mustRest", "initial", "mustInitial", "reverse", "mustReverse", "has",
		"mustHas", "slice", "mustSlice", "concat", "chunk", "mustChunk", "regexQuoteMeta",
		"urlParse", "urlJoin", "duration",
	}
	sprigCostly = map[string]func([]any) int{
		"add1f": decimals, "addf": decimals, "subf": decimals, "divf": decimals, "mulf": decimals,
		"semver": versions, "semverCompare": versions,
		"uniq": square, "mustUniq": square, "without": square, "mustWithout": square,
		"regexMatch": matching, "mustRegexMatch": matching, "regexFind": matching, "mustRegexFind": matching,
		"regexFindAll": matching, "mustRegexFindAll": matching, "regexSplit": matching, "mustRegexSplit": matching,
	}
	sprigGrowing = map[string]func([]any) int{
		"repeat": repeated, "replace": replaced, "join": joined, "until": counted, "untilStep": stepped, "seq": stepped,
		"splitn": counted, "wrap": wrapped, "wrapWith": wrapped,
	}
	sprigReplacing = []string{
		"regexReplaceAll", "mustRegexReplaceAll", "regexReplaceAllLiteral", "mustRegexReplaceAllLiteral",
	}
)

// unavailable are functions of sprig or Helm that templates cannot call. They read the clock, the
// time zone, the environment, files, the network or random numbers, take as much time as password
// hashing, or need Helm.
var unavailable = setOf(
	"now", "ago", "date", "date_in_zone", "date_modify", "dateInZone", "dateModify", "durationRound", "htmlDate",
	"htmlDateInZone", "must_date_modify", "mustDateModify", "mustToDate", "toDate", "unixEpoch",
	"env", "expandenv", "getHostByName", "osBase", "osClean", "osDir", "osExt", "osIsAbs",
	"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randInt", "randBytes", "shuffle", "uuidv4",
	"bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "buildCustomCert", "genCA", "genCAWithKey",
	"genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "encryptAES",
	"decryptAES", "hello", "include", "tpl", "lookup",
)

// functions are all functions for templates, in addition to the comparisons and the logic of
// text/template.
var functions = allFunctions()

// knownNames are the function names for the parser.
var knownNames = parserNames()

func allFunctions() map[string]function {
	all := map[string]function{}
	generic := sprig.GenericFuncMap()
	add := func(name string, f function) {
		if fn, ok := generic[name]; ok {
			f.call = reflect.ValueOf(fn)
			all[name] = f
		}
	}
	for _, name := range sprigShallow {
		add(name, function{shallow: true})
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
		add(name, function{cost: matching, size: growth})
	}
	maps.Copy(all, ownFunctions())
	return all
}

// parserNames returns the names that a template may use; the parser does not use the values.
func parserNames() map[string]any {
	names := map[string]any{}
	for name := range functions {
		names[name] = true
	}
	// The functions of text/template that are not wrapped: they are shallow, and their errors contain types only. "call"
	// has nothing to call.
	for _, name := range []string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge"} {
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
