// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package helmtest

import (
	"strings"
	"time"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Policies of tests.
var (
	RetryOnce = model.Policy{Install: model.FailurePolicy{Retries: Retries(1)},
		Upgrade: model.FailurePolicy{Retries: Retries(1)}}

	NeverRetry = model.Policy{Install: model.FailurePolicy{Retries: Retries(0)},
		Upgrade: model.FailurePolicy{Retries: Retries(0)}}

	WithRollback = model.Policy{Upgrade: model.FailurePolicy{Retries: Retries(1), Remediate: model.RemediateRollback}}

	WithUninstall = model.Policy{Install: model.FailurePolicy{Retries: Retries(1), Remediate: model.RemediateUninstall}}
)

// Retries returns a pointer to a number of retries.
func Retries(n int) *int { return &n }

// Now is the time of decisions in tests.
var Now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// Desired returns the desired state in most tests of decisions.
func Desired() model.Desired {
	return model.Desired{
		Name: "calico", Namespace: "tigera", Owner: "default.calico", UID: "uid-1",
		ArtifactDigest: "sha256:" + strings.Repeat("a", 64),
		ValuesDigest:   "sha256:" + strings.Repeat("b", 64),
		OptionsDigest:  strings.Repeat("c", 64),
	}
}

// Record returns a record by HelmOp, made from the desired state and changed by the functions.
func Record(status string, revision int, change ...func(*model.Record)) model.Record {
	d := Desired()
	record := model.Record{
		Revision: revision, Status: status, Owner: model.OwnerLabel(d.Owner), UID: d.UID,
		ArtifactDigest: model.DigestLabel(d.ArtifactDigest), ValuesDigest: model.DigestLabel(d.ValuesDigest),
		OptionsDigest: model.DigestLabel(d.OptionsDigest), LabelledRevision: revision, ChangedAt: Now.Add(-time.Minute),
	}
	for _, f := range change {
		f(&record)
	}
	return record
}

// DesiredFor returns the desired state of a release with the digests of an artifact and of values.
func DesiredFor(namespace, name, artifact, values string) model.Desired {
	return model.Desired{
		Name: name, Namespace: namespace, Owner: "default." + name, UID: "uid-" + name,
		ArtifactDigest: artifact, ValuesDigest: values, OptionsDigest: model.OptionsDigest(model.Options{}),
	}
}
