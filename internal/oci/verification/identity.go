// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package verification

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"sync"

	"github.com/sigstore/sigstore-go/pkg/verify"
)

// maxStates bounds the steps of a pattern once its repetitions are written out.
const maxStates = 1200

// compile reads an identity; i is its place in the list, for messages.
func (id Identity) compile(i int) (verify.CertificateIdentity, error) {
	issuer, err := compileName(fmt.Sprintf("issuer of identity %d", i+1), id.Issuer, id.IssuerRegExp, strangeIssuers())
	if err != nil {
		return verify.CertificateIdentity{}, err
	}
	subject, err := compileName(fmt.Sprintf("subject of identity %d", i+1), id.Subject, id.SubjectRegExp,
		strangeSubjects())
	if err != nil {
		return verify.CertificateIdentity{}, err
	}
	compiled, err := verify.NewShortCertificateIdentity(id.Issuer, issuer, id.Subject, subject)
	if err != nil {
		return verify.CertificateIdentity{},
			invalidPolicy(fmt.Sprintf("identity %d cannot be used", i+1), "set an issuer and a subject")
	}
	return compiled, nil
}

// strangers are hosts and, below, organizations of no policy. A pattern that
// matches a name of theirs does not say whose identities it means. The first are in a
// domain that cannot exist (RFC 2606), the others, long and short, in domains where
// anybody can have a name.
func strangers() []string {
	hosts := []string{"helmopstranger.invalid", "accounts.helmopstranger.invalid"}
	for _, domain := range []string{"com", "org", "net", "io", "dev"} {
		hosts = append(hosts, "helmopstranger."+domain, "accounts.helmopstranger."+domain, "x9z."+domain)
	}
	return hosts
}

// strangeIssuers are issuers that a pattern for known ones does not match.
var strangeIssuers = sync.OnceValue(func() []string {
	var names []string
	for _, host := range strangers() {
		for _, path := range []string{"", "/", "/x", "/auth/realms/x"} {
			names = append(names, "https://"+host+path)
		}
	}
	return names
})

// strangeSubjects are subjects that a pattern for known ones does not match: at
// strange hosts, and of strange organizations where organizations share a host.
var strangeSubjects = sync.OnceValue(func() []string {
	var names []string
	roots := []string{"https://github.com/helmopstranger", "https://gitlab.com/helmopstranger"}
	for _, host := range strangers() {
		names = append(names, "x@"+host, "spiffe://"+host+"/x", "spiffe://"+host+"/ns/x/sa/x", "https://"+host)
		roots = append(roots, "https://"+host+"/x")
	}
	for _, root := range roots {
		names = append(names, root, root+"/x")
		root += "/x"
		for _, ref := range []string{"refs/heads/main", "refs/tags/v1.2.3"} {
			names = append(names, root+"/.github/workflows/release.yml@"+ref, root+"/.github/workflows/release.yaml@"+ref,
				root+"//.gitlab-ci.yml@"+ref)
		}
	}
	return names
})

// compileName checks a name that is given exactly or by a pattern, and returns
// the pattern for the whole text, if there is one.
func compileName(what, exact, pattern string, strange []string) (string, error) {
	switch {
	case (exact == "") == (pattern == ""):
		return "", invalidPolicy("the "+what+" is not given, or given twice", "give it exactly or as a pattern")
	case max(len(exact), len(pattern)) > maxPattern:
		return "", invalidPolicy("the "+what+" is too long", fmt.Sprintf("give at most %d bytes", maxPattern))
	case exact != "":
		return "", nil
	}
	// On its own first: "a)|(b" would otherwise leave the anchors.
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", invalidPolicy(fmt.Sprintf("the %s is not a valid pattern: %s", what, clip(err.Error())), "use RE2 syntax")
	}
	whole := "^(?:" + pattern + ")$"
	// A short pattern may repeat much, and then each name takes a millisecond.
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxStates {
		return "", invalidPolicy("the "+what+" repeats too much", "repeat with \"*\" or \"+\" rather than with large numbers")
	}
	expression, err := regexp.Compile(whole)
	if err != nil {
		return "", invalidPolicy(fmt.Sprintf("the %s is not a valid pattern: %s", what, clip(err.Error())), "use RE2 syntax")
	}
	for _, name := range strange {
		if expression.MatchString(name) {
			return "", invalidPolicy(fmt.Sprintf("the %s matches untrusted names, for example %q", what, name),
				"bind the domain, and on a shared host the organization, as in \"https://github\\.com/my-org/.+\" or "+
					"\".+@example\\.com\"")
		}
	}
	return whole, nil
}
