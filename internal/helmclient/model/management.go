// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// ManagementCluster returns the management cluster on the newest record that has an owner; empty if the record has
// none.
func (o Observation) ManagementCluster() string {
	for _, record := range o.Records {
		if record.Owner != "" {
			return record.ManagementCluster
		}
	}
	return ""
}

// isOfManagementCluster reports whether the release belongs to the management cluster of the caller, or to a former
// management cluster of the caller's object.
func (o Observation) isOfManagementCluster(d Desired) bool {
	return IsManagedBy(o.ManagementCluster(), d)
}

// IsManagedBy reports whether a label names the management cluster of the caller, or a former management cluster of the
// caller's object. It returns true for an empty label, because records of older versions have no label.
func IsManagedBy(label string, d Desired) bool {
	return label == "" || d.ManagementCluster == "" || label == OwnerLabel(d.ManagementCluster) || isFormer(label, d)
}

// isFormer reports whether a label names a former management cluster of the caller's object.
func isFormer(label string, d Desired) bool {
	return label != "" && slices.ContainsFunc(d.FormerManagementClusters, func(former string) bool {
		return label == OwnerLabel(former)
	})
}

// IsSameOwner reports whether a foreign release has the same owner and differs only in its management cluster.
func IsSameOwner(obs Observation, d Desired) bool { return obs.Owner() == OwnerLabel(d.Owner) }

// NamesFormer reports whether a record of the release names a former management cluster of the caller's object, see
// TakeOver of the Client.
func (o Observation) NamesFormer(d Desired) bool {
	for _, record := range o.Records {
		if IsFormerRecord(record, d) {
			return true
		}
	}
	return false
}

// IsFormerRecord reports whether a record of the owner names a former management cluster of the caller's object.
func IsFormerRecord(record Record, d Desired) bool {
	return record.Owner == OwnerLabel(d.Owner) && isFormer(record.ManagementCluster, d) &&
		record.ManagementCluster != OwnerLabel(d.ManagementCluster)
}
