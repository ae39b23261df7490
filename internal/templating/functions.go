// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"maps"
	"reflect"
	"slices"

	"github.com/Masterminds/sprig/v3"
)

// function is what a template can call.
type function struct {
	// call is the function itself; bind makes it for one rendering instead.
	call reflect.Value
	bind func(*run) any

	// shallow functions look at the surface of their arguments and give back a part of them or a small value: their
	// cost does not grow with the size of the argument, and their result need not be measured.
	shallow bool

	// layout functions take markup as such; all others take it as the text it is.
	layout bool

	// mutates says that an argument is changed.
	mutates bool

	// cost is what a call costs beyond the size of arguments and result; size bounds the result before it is made.
	cost, size func(args []any) int
}

// The functions of sprig that are pure, by how they are held to the bounds. A list of what is allowed, and not of
// what is forbidden, so that an update of sprig cannot bring in a function nobody has looked at; a test holds each name
// of sprig to be here or in unavailable.
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

// unavailable are functions that sprig or Helm has and a template here cannot call: they read the clock, the time zone,
// the environment, files, the network or chance, cost as much time as passwords should, or need what only Helm has.
var unavailable = setOf(
	"now", "ago", "date", "date_in_zone", "date_modify", "dateInZone", "dateModify", "durationRound", "htmlDate",
	"htmlDateInZone", "must_date_modify", "mustDateModify", "mustToDate", "toDate", "unixEpoch",
	"env", "expandenv", "getHostByName", "osBase", "osClean", "osDir", "osExt", "osIsAbs",
	"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randInt", "randBytes", "shuffle", "uuidv4",
	"bcrypt", "htpasswd", "derivePassword", "genPrivateKey", "buildCustomCert", "genCA", "genCAWithKey",
	"genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey", "encryptAES",
	"decryptAES", "hello", "include", "tpl", "lookup",
)

// functions is everything that a template can call besides the comparisons and the logic of text/template.
var functions = allFunctions()

// knownNames is what the parser is told.
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

// parserNames are the names a template may use; the parser does not look at the values.
func parserNames() map[string]any {
	names := map[string]any{}
	for name := range functions {
		names[name] = true
	}
	// Those of text/template that are left as they are: they are shallow, and their errors tell types only. "call" has
	// nothing to call.
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
