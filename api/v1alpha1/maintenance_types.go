// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// MaintenanceWindowsAnnotation on a Cluster lists the times at which its releases may be changed, separated by
	// semicolons. Each is a cron expression of five fields, a duration and, optionally, a time zone:
	// "0 22 * * 1-5 4h Europe/Berlin; 0 8 * * 6 10h". See spec.maintenance of HelmOps.
	MaintenanceWindowsAnnotation = "addons.cluster.x-k8s.io/maintenance-windows"

	// MaintenanceFreezesAnnotation on a Cluster lists the times in which its releases are not changed, separated by
	// semicolons. Each is an interval of two times in RFC 3339, or of two dates, in UTC:
	// "2026-12-20/2027-01-03; 2027-02-01T08:00:00Z/2027-02-01T20:00:00Z". The end is excluded.
	MaintenanceFreezesAnnotation = "addons.cluster.x-k8s.io/maintenance-freezes"

	// MaintenanceVetoAnnotation on a Cluster keeps its releases as they are until it is removed. Its value is the reason,
	// which messages show.
	MaintenanceVetoAnnotation = "addons.cluster.x-k8s.io/maintenance-veto"
)

// Maintenance limits the times at which HelmOp changes releases. These changes
// wait: rollouts of HelmOp revisions, upgrades after a change of a Cluster,
// adoptions, corrections of drift, retries, and deletions because a Cluster is
// no longer selected. The deletion of the HelmOp or of a Cluster does not
// wait.
//
// Clusters can have their own limits, in the annotations
// addons.cluster.x-k8s.io/maintenance-windows, maintenance-freezes and
// maintenance-veto. HelmOp changes a release only when the limits of the
// HelmOp and the limits of the Cluster allow it. A change of this field or of
// the annotations does not create a HelmOp revision.
type Maintenance struct {
	// windows are the times at which HelmOp may change releases. Default: any
	// time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`

	// freezes are periods in which HelmOp does not change releases, also if a
	// window is open. Default: no freezes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Freezes []MaintenanceFreeze `json:"freezes,omitempty"`

	// veto stops all changes of releases while the field is set. The value is a
	// text with the reason of the veto. Messages show this reason. Example:
	// "incident 4711". Default: no veto.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Veto string `json:"veto,omitempty"`

	// includes lists further kinds of changes that wait for maintenance. Without
	// this list, they do not wait, because they install or repair a release.
	// - Installation: the first installation in a new Cluster.
	// - Rollback: the return to the last known good HelmOp revision, the pin of a
	//   release by a user, and the remediation of a failed upgrade.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Includes []MaintenanceScope `json:"includes,omitempty"`

	// clusterLimits sets whether HelmOp respects the maintenance annotations of
	// Clusters. Default: Respected.
	// - Respected: HelmOp waits for the limits in the annotations, too.
	// - Ignored: HelmOp ignores the annotations, for example for an urgent
	//   correction.
	// +optional
	ClusterLimits ClusterLimits `json:"clusterLimits,omitempty"`
}

// MaintenanceWindow is a repeated period in which HelmOp may change releases.
// An action that begins in a window may end after the window.
type MaintenanceWindow struct {
	// schedule is when the window opens, as a cron expression with five fields:
	// minute, hour, day (1-31), month, weekday (0-6, 0 is Sunday). Example: "0 22
	// * * 1-5" is at 22:00 from Monday to Friday. If both day and weekday are set,
	// the window opens on each day that matches one of them. In the field day, "L"
	// is the last day of the month. In the field weekday, "5#2" is the second
	// Friday of the month, and "5#L" is the last Friday.
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`

	// duration is how long the window is open, from 1m to 168h. Example: 4h.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be at least 1m and at most 168h, for example 4h"
	Duration metav1.Duration `json:"duration"`

	// timeZone is the time zone of the schedule, for example Europe/Berlin.
	// Default: UTC. When daylight saving time begins, a window that opens in the
	// skipped hour opens an hour later. When daylight saving time ends, a window
	// that opens in the repeated hour opens twice.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// MaintenanceFreeze is a period in which HelmOp does not change releases.
// +kubebuilder:validation:XValidation:rule="self.from < self.until",message="until must be later than from"
type MaintenanceFreeze struct {
	// from is the start of the freeze, in RFC 3339. Example:
	// "2026-12-20T00:00:00Z".
	// +required
	From metav1.Time `json:"from"`

	// until is the end of the freeze, in RFC 3339. From this time on, HelmOp
	// changes releases again. Example: "2027-01-03T00:00:00Z".
	// +required
	Until metav1.Time `json:"until"`

	// reason is the reason of the freeze. Messages show this text, for example
	// "end of year".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// MaintenanceScope is a kind of change that waits for maintenance only if
// spec.maintenance.includes lists it.
// +kubebuilder:validation:Enum=Installation;Rollback
type MaintenanceScope string

const (
	// MaintenanceInstallation is the first installation in a new Cluster.
	MaintenanceInstallation MaintenanceScope = "Installation"

	// MaintenanceRollback is the return to the last known good HelmOp revision, a pin by a user, and the remediation of a
	// failed upgrade.
	MaintenanceRollback MaintenanceScope = "Rollback"
)

// ClusterLimits sets whether the maintenance annotations of Clusters count.
// The zero value is the same as Respected.
// +kubebuilder:validation:Enum=Respected;Ignored
type ClusterLimits string

const (
	// ClusterLimitsRespected waits for the limits in the annotations of Clusters.
	ClusterLimitsRespected ClusterLimits = "Respected"

	// ClusterLimitsIgnored ignores the annotations of Clusters.
	ClusterLimitsIgnored ClusterLimits = "Ignored"
)
