// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"fmt"
	"regexp"
)

// advice tells what to do about refusals that no retry cures.
var advice = []struct {
	sign   *regexp.Regexp
	advice string
}{
	{conflicting, "set install.takeOwnership to take ownership of the object, delete the object, or choose another release name or namespace"},
	{Immutable, "it cannot be changed in place: delete the object, the next try creates it anew; or set upgrade.force"},
	{regexp.MustCompile(`exceeded quota`), "a ResourceQuota of the namespace is used up"},
	{regexp.MustCompile(`denied request`), "an admission policy of the cluster refuses it"},
	{regexp.MustCompile(`denied the request`), "an admission webhook of the cluster refuses it"},
	{regexp.MustCompile(`violates PodSecurity`), "see install.namespaceMetadata, for example the label pod-security.kubernetes.io/enforce"},
	{regexp.MustCompile(`because it is being terminated`), "wait until the namespace is gone"},
}

// Explain adds to an error of the cluster what to do about it.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, entry := range advice {
		if entry.sign.MatchString(text) {
			return fmt.Errorf("%w (%s)", err, entry.advice)
		}
	}
	return err
}

// Immutable matches refusals that end only when the object is made anew.
var Immutable = regexp.MustCompile(`is immutable|may not change once set|may not be changed in an update|cannot change roleRef|` +
	`updates to statefulset spec for fields other than|updates to (parameters|provisioner|reclaimPolicy) are forbidden`)
