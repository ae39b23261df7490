// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxReleaseName is Helm's limit. Charts append text to the name, and the result must fit into a label value of 63
// characters.
const maxReleaseName = 53

// nameRule is a rule of Helm or the API server for names.
type nameRule struct {
	what, hint string
	maxLength  int
	check      func(string) []string
	form       string
}

var (
	releaseNameRule = nameRule{
		what: "name", maxLength: maxReleaseName, hint: "; shorten it, for example with trunc",
		check: validation.IsDNS1123Subdomain, form: "lower case letters, digits, '-' and '.'",
	}
	namespaceRule = nameRule{
		what: "namespace", maxLength: validation.DNS1123LabelMaxLength,
		check: validation.IsDNS1123Label, form: "lower case letters, digits and '-'",
	}
	// objectNameRule is for names of Secrets and ConfigMaps.
	objectNameRule = nameRule{
		what: "name", maxLength: validation.DNS1123SubdomainMaxLength,
		check: validation.IsDNS1123Subdomain, form: "lower case letters, digits, '-' and '.'",
	}
)

// refuse returns the reason if a name is invalid, or nil. The error does not quote the name, because data determine it.
func (r nameRule) refuse(name string) error {
	switch {
	case name == "":
		return faultf(ReasonInvalidName, "yields an empty %s", r.what)
	case len(name) > r.maxLength:
		return faultf(ReasonInvalidName, "yields a %s of %d characters, at most %d are possible%s", r.what, len(name),
			r.maxLength, r.hint)
	case len(r.check(name)) > 0:
		return faultf(ReasonInvalidName, "yields a %s that is not %s, with a letter or digit at both ends", r.what, r.form)
	}
	return nil
}
