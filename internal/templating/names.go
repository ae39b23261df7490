// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package templating

import (
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxReleaseName is Helm's bound: charts append to the name and must stay within a label value of 63.
const maxReleaseName = 53

// checkReleaseName refuses what Helm refuses. The error does not quote the name: it comes from data.
func checkReleaseName(name string) error {
	switch {
	case name == "":
		return faultf(ReasonInvalidName, "yields an empty name")
	case len(name) > maxReleaseName:
		return faultf(ReasonInvalidName, "yields a name of %d characters, at most %d are possible; shorten it, for example with trunc",
			len(name), maxReleaseName)
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return faultf(ReasonInvalidName, "yields a name that is not lower case letters, digits, '-' and '.', "+
			"with a letter or digit at both ends")
	}
	return nil
}

func checkNamespace(namespace string) error {
	switch {
	case namespace == "":
		return faultf(ReasonInvalidName, "yields an empty namespace")
	case len(namespace) > validation.DNS1123LabelMaxLength:
		return faultf(ReasonInvalidName, "yields a namespace of %d characters, at most %d are possible",
			len(namespace), validation.DNS1123LabelMaxLength)
	case len(validation.IsDNS1123Label(namespace)) > 0:
		return faultf(ReasonInvalidName, "yields a namespace that is not lower case letters, digits and '-', "+
			"with a letter or digit at both ends")
	}
	return nil
}

// checkObjectName refuses what the API server refuses as the name of a Secret or ConfigMap.
func checkObjectName(name string) error {
	switch {
	case name == "":
		return faultf(ReasonInvalidName, "yields an empty name")
	case len(name) > validation.DNS1123SubdomainMaxLength:
		return faultf(ReasonInvalidName, "yields a name of %d characters, at most %d are possible",
			len(name), validation.DNS1123SubdomainMaxLength)
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return faultf(ReasonInvalidName, "yields a name that no object can have: use lower case letters, digits, '-' and '.', "+
			"with a letter or digit at both ends")
	}
	return nil
}
