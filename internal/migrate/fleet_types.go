// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// fleetGroup is the API group of Fleet.
const fleetGroup = "fleet.cattle.io"

// Kinds of Fleet.
var (
	// FleetHelmOpKind is the kind of a chart for the clusters of its targets.
	FleetHelmOpKind = schema.GroupVersionKind{Group: fleetGroup, Version: "v1alpha1", Kind: "HelmOp"}

	// FleetBundleKind is the kind of the object that Fleet creates from a HelmOp. The Bundle has the name of the HelmOp.
	FleetBundleKind = schema.GroupVersionKind{Group: fleetGroup, Version: "v1alpha1", Kind: "Bundle"}

	// FleetDeploymentKind is the kind of the release of a Bundle in a cluster. The BundleDeployment has the name of the
	// Bundle, and is in a namespace for the cluster.
	FleetDeploymentKind = schema.GroupVersionKind{Group: fleetGroup, Version: "v1alpha1", Kind: "BundleDeployment"}

	// FleetClusterKind is the kind of a cluster of Fleet.
	FleetClusterKind = schema.GroupVersionKind{Group: fleetGroup, Version: "v1alpha1", Kind: "Cluster"}

	// FleetGroupKind is the kind of a group, which selects clusters of Fleet by their labels.
	FleetGroupKind = schema.GroupVersionKind{Group: fleetGroup, Version: "v1alpha1", Kind: "ClusterGroup"}
)

// These labels of a BundleDeployment name its Bundle and its cluster.
const (
	FleetBundleLabel           = "fleet.cattle.io/bundle-name"
	FleetBundleNamespaceLabel  = "fleet.cattle.io/bundle-namespace"
	fleetClusterLabel          = "fleet.cattle.io/cluster"
	fleetClusterNamespaceLabel = "fleet.cattle.io/cluster-namespace"
)

// fleetDisplayNameLabel is a label of a cluster of Fleet with another name, which a target can use.
const fleetDisplayNameLabel = "management.cattle.io/cluster-display-name"

// fleetHelmOp has the fields of Fleet's HelmOp that a migration reads.
type fleetHelmOp struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		fleetOptions          `json:",inline"`
		Paused                bool             `json:"paused"`
		PollingInterval       *metav1.Duration `json:"pollingInterval"`
		HelmSecretName        string           `json:"helmSecretName"`
		InsecureSkipTLSVerify bool             `json:"insecureSkipTLSVerify"`
		RolloutStrategy       *struct {
			MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
			Partitions     []any               `json:"partitions"`
		} `json:"rolloutStrategy"`
		Targets   []fleetTarget     `json:"targets"`
		DependsOn []fleetDependency `json:"dependsOn"`
	} `json:"spec"`
	Status struct {
		Version string `json:"version"`
	} `json:"status"`
}

// fleetOptions are the options of a HelmOp or of a target.
type fleetOptions struct {
	DefaultNamespace string     `json:"defaultNamespace"`
	TargetNamespace  string     `json:"namespace"`
	Helm             *fleetHelm `json:"helm"`
	ServiceAccount   string     `json:"serviceAccount"`
	CreateNamespace  *bool      `json:"createNamespace"`
	Diff             *struct {
		ComparePatches []fleetComparePatch `json:"comparePatches"`
	} `json:"diff"`
	KeepResources   bool `json:"keepResources"`
	DeleteNamespace bool `json:"deleteNamespace"`
	Ignore          *struct {
		Conditions []map[string]string `json:"conditions"`
	} `json:"ignore"`
	CorrectDrift *struct {
		Enabled bool `json:"enabled"`
		Force   bool `json:"force"`
	} `json:"correctDrift"`
	NamespaceLabels      map[string]string `json:"namespaceLabels"`
	NamespaceAnnotations map[string]string `json:"namespaceAnnotations"`
	DeleteCRDResources   bool              `json:"deleteCRDResources"`
	DownstreamResources  []fleetResource   `json:"downstreamResources"`
}

// fleetHelm are the options of Helm.
type fleetHelm struct {
	Chart                string            `json:"chart"`
	Repo                 string            `json:"repo"`
	Version              string            `json:"version"`
	ReleaseName          string            `json:"releaseName"`
	TimeoutSeconds       int64             `json:"timeoutSeconds"`
	Values               map[string]any    `json:"values"`
	TemplateValues       map[string]string `json:"templateValues"`
	ValuesFrom           []fleetValuesFrom `json:"valuesFrom"`
	ValuesFiles          []string          `json:"valuesFiles"`
	Force                bool              `json:"force"`
	MaxHistory           int32             `json:"maxHistory"`
	Atomic               bool              `json:"atomic"`
	DisablePreProcess    bool              `json:"disablePreProcess"`
	SkipSchemaValidation bool              `json:"skipSchemaValidation"`
}

// fleetValuesFrom names a ConfigMap and a Secret in a cluster.
type fleetValuesFrom struct {
	ConfigMapKeyRef *fleetKey `json:"configMapKeyRef"`
	SecretKeyRef    *fleetKey `json:"secretKeyRef"`
}

type fleetKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

// fleetResource is a Secret or ConfigMap in the namespace of the HelmOp that Fleet copies to the clusters.
type fleetResource struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// fleetComparePatch is a rule for what Fleet ignores when it compares an object with the release.
type fleetComparePatch struct {
	APIVersion   string   `json:"apiVersion"`
	Kind         string   `json:"kind"`
	Name         string   `json:"name"`
	Namespace    string   `json:"namespace"`
	JSONPointers []string `json:"jsonPointers"`
	Operations   []struct {
		Op   string `json:"op"`
		Path string `json:"path"`
	} `json:"operations"`
}

// fleetTarget selects clusters. Its options change the options of the HelmOp for these clusters.
type fleetTarget struct {
	fleetOptions         `json:",inline"`
	Name                 string                `json:"name"`
	ClusterName          string                `json:"clusterName"`
	ClusterSelector      *metav1.LabelSelector `json:"clusterSelector"`
	ClusterGroup         string                `json:"clusterGroup"`
	ClusterGroupSelector *metav1.LabelSelector `json:"clusterGroupSelector"`
	DoNotDeploy          bool                  `json:"doNotDeploy"`
}

// fleetDependency is a dependency on a Bundle that must be ready first. The name is empty if the dependency selects
// Bundles by their labels.
type fleetDependency struct {
	Name           string   `json:"name"`
	AcceptedStates []string `json:"acceptedStates"`
}

// fleetDeployment has the fields of a BundleDeployment that a migration reads.
type fleetDeployment struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Paused             bool   `json:"paused"`
		OffSchedule        bool   `json:"offSchedule"`
		StagedDeploymentID string `json:"stagedDeploymentID"`
		DeploymentID       string `json:"deploymentID"`
		Options            struct {
			KeepResources bool `json:"keepResources"`
		} `json:"options"`
	} `json:"spec"`
	Status struct {
		AppliedDeploymentID string `json:"appliedDeploymentID"`
		Release             string `json:"release"`
		Ready               bool   `json:"ready"`
		NonModified         bool   `json:"nonModified"`
	} `json:"status"`
}

// fleetCluster has the fields of a cluster of Fleet that a migration reads.
type fleetCluster struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		KubeConfigSecret          string         `json:"kubeConfigSecret"`
		KubeConfigSecretNamespace string         `json:"kubeConfigSecretNamespace"`
		TemplateValues            map[string]any `json:"templateValues"`
	} `json:"spec"`
}

// fleetClusterGroup has the fields of a ClusterGroup that a migration reads.
type fleetClusterGroup struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector *metav1.LabelSelector `json:"selector"`
	} `json:"spec"`
}
