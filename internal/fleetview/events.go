// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package fleetview

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// IsOurs reports whether an Event is about an object of HelmOp. It checks the API group, because Fleet has a kind
// HelmOp too.
func IsOurs(e *corev1.Event) bool {
	return strings.HasPrefix(e.InvolvedObject.APIVersion, addonsv1.GroupVersion.Group+"/")
}

// SortedEvents returns the Events about objects of HelmOp in order of time.
func SortedEvents(items []*corev1.Event) []*corev1.Event {
	events := slices.DeleteFunc(slices.Clone(items), func(e *corev1.Event) bool { return !IsOurs(e) })
	slices.SortStableFunc(events, func(a, b *corev1.Event) int {
		if d := EventTime(a).Compare(EventTime(b)); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	return events
}

// EventTime returns when an Event happened last.
func EventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

// EventCount returns how often an Event happened.
func EventCount(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}
