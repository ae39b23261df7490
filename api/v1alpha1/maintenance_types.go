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

// Maintenance is when releases may be changed. It applies to the rollout of HelmOp revisions, to upgrades because of a
// change of a Cluster, to adoptions, corrections of drift, retries, and deletions because a Cluster is no longer
// selected. The deletion of the HelmOp or of a Cluster does not wait.
//
// Clusters have limits of their own, in the annotations addons.cluster.x-k8s.io/maintenance-windows,
// maintenance-freezes and maintenance-veto. A release is changed only when the limits of the HelmOp and those of the
// Cluster permit it. A change of this field or of the annotations does not create a HelmOp revision.
type Maintenance struct {
	// windows are the times at which releases may be changed. Default: any time.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []MaintenanceWindow `json:"windows,omitempty"`

	// freezes are times in which releases are not changed, not even in a window.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Freezes []MaintenanceFreeze `json:"freezes,omitempty"`

	// veto keeps all releases as they are until it is removed. Its value is the reason.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Veto string `json:"veto,omitempty"`

	// includes lists what else waits. Installation is the first installation in a new Cluster. Rollback is the return to
	// the last known good HelmOp revision, a pin by a user, and the remediation of a failed upgrade. Default: neither
	// waits.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Includes []MaintenanceScope `json:"includes,omitempty"`

	// clusterLimits is whether the annotations of Clusters count. With Ignored, only this field counts, for example for
	// an urgent correction. Default: Respected.
	// +optional
	ClusterLimits ClusterLimits `json:"clusterLimits,omitempty"`
}

// MaintenanceWindow is a repeated time at which releases may be changed. An action that began in a window may end after
// it.
type MaintenanceWindow struct {
	// schedule is when the window opens: a cron expression of five fields. If the fields day of month and day of week
	// are both restricted, one of them must match. The day of week can also be "5#2", the second Friday of a month, or
	// "5#L", the last Friday; "L" is the last day of a month. Example: "0 22 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	Schedule string `json:"schedule"`

	// duration is how long the window is open: from 1m to 168h. Example: 4h.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be from 1m to 168h"
	Duration metav1.Duration `json:"duration"`

	// timeZone is the time zone of the schedule, for example Europe/Berlin. An opening in the hour that is skipped when
	// daylight saving time begins takes place an hour later. In the hour that is repeated when it ends, the window opens
	// twice. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`
}

// MaintenanceFreeze is a time in which releases are not changed.
// +kubebuilder:validation:XValidation:rule="self.from < self.until",message="until must be after from"
type MaintenanceFreeze struct {
	// from is the start, in RFC 3339. Example: 2026-12-20T00:00:00Z.
	// +required
	From metav1.Time `json:"from"`

	// until is the end, in RFC 3339. Releases are changed again from then on.
	// +required
	Until metav1.Time `json:"until"`

	// reason is shown in messages.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// MaintenanceScope is something that waits for maintenance only if a HelmOp asks for it.
// +kubebuilder:validation:Enum=Installation;Rollback
type MaintenanceScope string

const (
	// MaintenanceInstallation is the first installation in a new Cluster.
	MaintenanceInstallation MaintenanceScope = "Installation"

	// MaintenanceRollback is the return to the last known good HelmOp revision, a pin by a user, and the remediation of a
	// failed upgrade.
	MaintenanceRollback MaintenanceScope = "Rollback"
)

// ClusterLimits is whether the limits that Clusters set count. The zero value is the same as Respected.
// +kubebuilder:validation:Enum=Respected;Ignored
type ClusterLimits string

const (
	// ClusterLimitsRespected respects the limits of Clusters.
	ClusterLimitsRespected ClusterLimits = "Respected"

	// ClusterLimitsIgnored ignores them.
	ClusterLimitsIgnored ClusterLimits = "Ignored"
)
