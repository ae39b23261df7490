// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ReleaseBookkeeping is the state that the manager needs after a restart. Do
// not use these fields: they may change in any version.
type ReleaseBookkeeping struct {
	// health is the health state of a Helm revision. The condition Healthy reports
	// the health.
	// +optional
	Health *HealthStatus `json:"health,omitempty"`

	// clusterUID is the UID of the Cluster of this status. A Cluster that is
	// re-created has another UID.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ClusterUID string `json:"clusterUID,omitempty"`

	// clusterRecreatedAt is when HelmOp found that the Cluster had been re-created
	// under the same name. A spec.rollout with an earlier time was assigned to the
	// former Cluster.
	// +optional
	ClusterRecreatedAt metav1.Time `json:"clusterRecreatedAt,omitempty,omitzero"`

	// wasReady is the last period during which the release was Ready. HelmOp sets
	// wasReady when the Cluster becomes unreachable. From wasReady, a rollout
	// knows whether the Cluster became unreachable during its update, or only
	// after its update was done.
	// +optional
	WasReady *ReadyPeriod `json:"wasReady,omitempty"`

	// lastAttemptedDigest is the digest of the desired state that HelmOp tried to
	// apply at the last attempt.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastAttemptedDigest string `json:"lastAttemptedDigest,omitempty"`

	// lastAttemptedGeneration is the metadata.generation of the HelmOpRelease at
	// the last attempt. If the generation changes, HelmOp sets the count of failed
	// attempts to 0.
	// +optional
	LastAttemptedGeneration int64 `json:"lastAttemptedGeneration,omitempty"`

	// upgradeCheck identifies the check whose result is in the condition
	// KubernetesUpgradeReady.
	// +optional
	UpgradeCheck *UpgradeCheck `json:"upgradeCheck,omitempty"`

	// preparation is set while the manager fetches, unpacks and parses the artifact
	// of the release, and while it renders the chart with new values. It may stay
	// until the action of the rendering has ended. If the manager stops during the
	// preparation, the next manager waits before it tries again.
	// +optional
	Preparation *ReleasePreparation `json:"preparation,omitempty"`
}

// HealthStatus is what HelmOp stores about the health of a Helm revision. The
// condition Healthy reports the health.
type HealthStatus struct {
	// revision is the number of the Helm revision.
	Revision int64 `json:"revision"`

	// since is the time when the health timeout of the Helm revision began. This
	// is the time when the Helm revision was deployed. If the manager did not
	// observe the deployment, since is the time when the manager first observed
	// the Helm revision.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// deployed is true if the manager has observed the Helm revision since its
	// deployment. If deployed is false, the Helm revision may have been healthy
	// before. So HelmOp does not start remediation if this Helm revision is
	// unhealthy.
	// +optional
	Deployed bool `json:"deployed,omitempty"`

	// failed is true if the Helm revision became unhealthy and had never been
	// healthy before. The manager sets failed only if it has observed the Helm
	// revision since its deployment.
	// +optional
	Failed bool `json:"failed,omitempty"`

	// missed is true if the manager observed the deployment of the Helm revision,
	// but did not observe its health for a long time after that. The Helm revision
	// may have been healthy in this time. HelmOp does not roll back from this Helm
	// revision, and does not roll back to it.
	// +optional
	Missed bool `json:"missed,omitempty"`

	// wasHealthy is true if the Helm revision has been healthy once.
	// +optional
	WasHealthy bool `json:"wasHealthy,omitempty"`

	// lost is true if the Helm revision was healthy and is now unhealthy.
	// +optional
	Lost bool `json:"lost,omitempty"`

	// progressingSince is the time since when objects of a healthy Helm revision
	// are in progress again.
	// +optional
	ProgressingSince metav1.Time `json:"progressingSince,omitempty,omitzero"`
}

// ReadyPeriod is a period during which a release was Ready.
type ReadyPeriod struct {
	// revision is the number of the HelmOp revision of the release in this period.
	// +required
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision"`

	// since is when the release became Ready.
	// +required
	Since metav1.Time `json:"since"`

	// until is the time when the manager first failed to reach the Cluster.
	// +required
	Until metav1.Time `json:"until"`
}

// ReleasePreparation is a preparation of a release that has begun.
type ReleasePreparation struct {
	// key is the digest of the artifact, of the values and the options of the
	// release, of its shard, and of the last retry request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Key string `json:"key"`

	// startedAt is when the preparation began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// count is the number of preparations with the same key that have begun and
	// did not end.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
}

// UpgradeCheck identifies a check of a release for an upgrade of Kubernetes.
type UpgradeCheck struct {
	// version is the requested new version of Kubernetes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`

	// inputs is the digest of everything on which the result of the check depends.
	// While there is no result, inputs is empty. If the digest changes, HelmOp
	// checks the release again.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs,omitempty"`

	// attempt is a check that has begun and has no result yet. If the manager
	// stops during the check, the next manager waits before it tries again.
	// +optional
	Attempt *UpgradeCheckAttempt `json:"attempt,omitempty"`
}

// UpgradeCheckAttempt is a check of a release that has begun.
type UpgradeCheckAttempt struct {
	// inputs is the digest of everything on which the result of the check will
	// depend.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Inputs string `json:"inputs"`

	// startedAt is when the check began.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// count is the number of checks with the same inputs that have begun and gave
	// no result.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int64 `json:"count"`
}
