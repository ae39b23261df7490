// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package records

import (
	"maps"
	"strconv"
	"strings"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/decide"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/helmclient/model"
)

// Relabel replaces HelmOp's labels, which Helm copied from another record, and keeps all others.
type Relabel func(carried map[string]string) map[string]string

// AttemptLabels is the relabel of installs and upgrades.
func AttemptLabels(d model.Desired, decision decide.Decision) Relabel {
	return func(map[string]string) map[string]string {
		labels := model.DesiredLabels(d)
		model.SetText(labels, model.LabelRequest, decision.Request)
		model.SetCount(labels, model.LabelFailures, decision.Failures)
		model.SetCount(labels, model.LabelInterruptions, decision.Interruptions)
		model.SetCount(labels, model.LabelUnproven, decision.Unproven)
		return labels
	}
}

// RollbackLabels is the relabelling for rollbacks. The digests are those of the target revision, which Helm copies,
// unless HelmOp did not make that revision.
func RollbackLabels(d model.Desired, decision decide.Decision) Relabel {
	return func(carried map[string]string) map[string]string {
		labels := model.OwnerLabels(d)
		if carried[model.LabelRevision] == strconv.Itoa(decision.RollbackTo) {
			for _, key := range model.DigestLabels {
				if digest, ok := carried[key]; ok {
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

// Apply returns the labels for a new record, given the labels that Helm would set.
func (r Relabel) Apply(carried map[string]string, revision int) map[string]string {
	labels := withoutSystemLabels(carried)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, model.LabelPrefix) })
	maps.Copy(labels, r(carried))
	labels[model.LabelRevision] = strconv.Itoa(revision)
	return labels
}
