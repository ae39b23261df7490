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

// Relabel replaces whatever labels of ours a new record would have, carried over from another one, and keeps all others.
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

// RollbackLabels is the relabel of rollbacks: the digests are those of the revision returned to, which Helm carries over,
// unless another hand made it.
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

// Apply returns the labels for a new record, given those that Helm would put on it.
func (r Relabel) Apply(carried map[string]string, revision int) map[string]string {
	labels := withoutSystemLabels(carried)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, model.LabelPrefix) })
	maps.Copy(labels, r(carried))
	labels[model.LabelRevision] = strconv.Itoa(revision)
	return labels
}
