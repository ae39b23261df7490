// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmerr

import (
	"fmt"
	"regexp"
)

// advice lists the advice for errors that a retry does not resolve. The first match applies.
var advice = []struct {
	sign   *regexp.Regexp
	advice string
}{
	{conflicting,
		"set install.takeOwnership to take ownership of the object, delete the object, or choose another release name or " +
			"namespace"},
	{Immutable, "the field is immutable: delete the object, and the next attempt re-creates it; " +
		"or set upgrade.force, which does that for objects of some kinds"},
	{regexp.MustCompile(`exceeded quota`), "a ResourceQuota of the namespace is exhausted: raise it or free resources"},
	{regexp.MustCompile(`denied request`),
		"an admission policy of the cluster rejects the object: change the object or the policy"},
	{regexp.MustCompile(`denied the request`),
		"an admission webhook of the cluster rejects the object: change the object or the webhook"},
	{silentWebhook, "a webhook of the cluster does not answer: repair the Service or the Pods of the webhook, or delete " +
		"its configuration"},
	{regexp.MustCompile(`violates PodSecurity`),
		"set the label pod-security.kubernetes.io/enforce of the namespace, for example with install.namespaceMetadata"},
	{regexp.MustCompile(`because it is being terminated`), "the action is tried again when the namespace is gone"},
}

// Explain appends advice to an error of the cluster if there is advice for it.
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

// Immutable matches errors about changes that require the object to be re-created.
var Immutable = regexp.MustCompile(`is immutable|may not change once set|may not be changed in an update|cannot change roleRef|` +
	`updates to statefulset spec for fields other than|updates to (parameters|provisioner|reclaimPolicy) are forbidden`)
