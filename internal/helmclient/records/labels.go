// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"maps"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Relabel returns HelmOp's labels for a new record. Its argument are the labels that Helm copied from another record.
type Relabel func(copied map[string]string) map[string]string

// AttemptLabels returns the Relabel function for installations and upgrades.
func AttemptLabels(d model.Desired, decision decide.Decision) Relabel {
	return func(map[string]string) map[string]string {
		labels := model.DesiredLabels(d)
		model.SetText(labels, model.LabelRequest, decision.Request)
		model.SetCount(labels, model.LabelFailures, decision.Failures)
		model.SetCount(labels, model.LabelInterruptions, decision.Interruptions)
		model.SetCount(labels, model.LabelUnproven, decision.Unproven)
		model.SetTime(labels, model.LabelAttemptsSince, decision.AttemptsSince)
		if decision.MayHaveWorked {
			labels[model.LabelMayHaveWorked] = "true"
		}
		return labels
	}
}

// AdoptionLabels returns the Relabel function for an adoption that creates no revision.
func AdoptionLabels(d model.Desired, decision decide.Decision) Relabel {
	return func(copied map[string]string) map[string]string {
		labels := AttemptLabels(d, decision)(copied)
		labels[model.LabelTested] = model.TestedAdopted
		return labels
	}
}

// WithPublicValues returns a Relabel function that also sets [model.LabelPublicValues] if isPublic is true.
func (r Relabel) WithPublicValues(isPublic bool) Relabel {
	if !isPublic {
		return r
	}
	return func(copied map[string]string) map[string]string {
		labels := r(copied)
		labels[model.LabelPublicValues] = "true"
		return labels
	}
}

// HasPublicValues reports whether the values of a record are known to have no value from a Secret. Other programs may
// copy the label to records that they create, so it is valid only for the revision for which HelmOp wrote it.
func HasPublicValues(rls *release.Release) bool {
	return rls.Labels[model.LabelPublicValues] == "true" && rls.Labels[model.LabelRevision] == strconv.Itoa(rls.Version)
}

// RollbackLabels returns the Relabel function for rollbacks. It keeps the digests that Helm copied from the target
// revision, unless HelmOp did not create the target revision.
func RollbackLabels(d model.Desired, decision decide.Decision) Relabel {
	return func(copied map[string]string) map[string]string {
		labels := model.OwnerLabels(d)
		if copied[model.LabelRevision] == strconv.Itoa(decision.RollbackTo) {
			for _, key := range model.DigestLabels {
				if digest, ok := copied[key]; ok {
					labels[key] = digest
				}
			}
		}
		labels[model.LabelRolledBackFrom] = model.AttemptLabel(d)
		model.SetText(labels, model.LabelRequest, decision.Request)
		model.SetCount(labels, model.LabelFailures, decision.Failures)
		model.SetCount(labels, model.LabelRollbackFailures, decision.RollbackFailures)
		model.SetCount(labels, model.LabelInterruptions, decision.Interruptions)
		model.SetCount(labels, model.LabelUnproven, decision.Unproven)
		return labels
	}
}

// Apply returns all labels for a new record. copied are the labels that Helm would set. Apply replaces HelmOp's labels
// and keeps the labels of other writers.
func (r Relabel) Apply(copied map[string]string, revision int) map[string]string {
	labels := withoutSystemLabels(copied)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, model.LabelPrefix) })
	maps.Copy(labels, r(copied))
	labels[model.LabelRevision] = strconv.Itoa(revision)
	return labels
}
