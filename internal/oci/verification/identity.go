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

// maxStates bounds the instructions of a compiled pattern.
const maxStates = 1200

// compile parses an identity. i is its index in the list, for messages.
func (id Identity) compile(i int) (verify.CertificateIdentity, error) {
	issuer, err := compileName(fmt.Sprintf("issuer of identity %d", i+1), id.Issuer, id.IssuerRegExp, untrustedIssuers())
	if err != nil {
		return verify.CertificateIdentity{}, err
	}
	subject, err := compileName(fmt.Sprintf("subject of identity %d", i+1), id.Subject, id.SubjectRegExp,
		untrustedSubjects())
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

// untrustedHosts returns hosts that no policy trusts. The functions below add organizations. A pattern that matches one
// of their names is too general. The first hosts are in a domain that cannot exist (RFC 2606). The other hosts, long
// and short, are in domains in which anyone can register a name.
func untrustedHosts() []string {
	hosts := []string{"helmopstranger.invalid", "accounts.helmopstranger.invalid"}
	for _, domain := range []string{"com", "org", "net", "io", "dev"} {
		hosts = append(hosts, "helmopstranger."+domain, "accounts.helmopstranger."+domain, "x9z."+domain)
	}
	return hosts
}

// untrustedIssuers are issuers that a specific pattern does not match.
var untrustedIssuers = sync.OnceValue(func() []string {
	var names []string
	for _, host := range untrustedHosts() {
		for _, path := range []string{"", "/", "/x", "/auth/realms/x"} {
			names = append(names, "https://"+host+path)
		}
	}
	return names
})

// untrustedSubjects are subjects that a specific pattern does not match: at untrusted hosts, and of
// untrusted organizations on shared hosts.
var untrustedSubjects = sync.OnceValue(func() []string {
	var names []string
	roots := []string{"https://github.com/helmopstranger", "https://gitlab.com/helmopstranger"}
	for _, host := range untrustedHosts() {
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

// compileName validates a name that is given exactly or by a pattern. For a pattern, it returns the
// anchored pattern; for an exact name, it returns "".
func compileName(what, exact, pattern string, untrusted []string) (string, error) {
	switch {
	case (exact == "") == (pattern == ""):
		return "", invalidPolicy("the "+what+" is not given, or given twice", "give it exactly or as a pattern")
	case max(len(exact), len(pattern)) > maxPattern:
		return "", invalidPolicy("the "+what+" is too long", fmt.Sprintf("give at most %d bytes", maxPattern))
	case exact != "":
		return "", nil
	}
	// Parse the pattern alone first: "a)|(b" would otherwise change the meaning of the anchors.
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", invalidPolicy(fmt.Sprintf("the %s is not a valid pattern: %s", what, clip(err.Error())), "use RE2 syntax")
	}
	whole := "^(?:" + pattern + ")$"
	// A short pattern with large repetitions would need a millisecond for each name.
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxStates {
		return "", invalidPolicy("the "+what+" repeats too much", "repeat with \"*\" or \"+\" rather than with large numbers")
	}
	expression, err := regexp.Compile(whole)
	if err != nil {
		return "", invalidPolicy(fmt.Sprintf("the %s is not a valid pattern: %s", what, clip(err.Error())), "use RE2 syntax")
	}
	for _, name := range untrusted {
		if expression.MatchString(name) {
			return "", invalidPolicy(fmt.Sprintf("the %s matches untrusted names, for example %q", what, name),
				"bind the domain, and on a shared host the organization, as in \"https://github\\.com/my-org/.+\" or "+
					"\".+@example\\.com\"")
		}
	}
	return whole, nil
}
