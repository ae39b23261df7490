// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Kinds of Flux.
var (
	// HelmReleaseKind is the kind of a release in a cluster.
	HelmReleaseKind = schema.GroupVersionKind{Group: "helm.toolkit.fluxcd.io", Version: "v2", Kind: "HelmRelease"}

	// OCIRepositoryKind and HelmRepositoryKind are the kinds of sources of charts.
	OCIRepositoryKind  = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "OCIRepository"}
	HelmRepositoryKind = schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: "HelmRepository"}
)

// name is a reference to an object in the same namespace.
type name struct {
	Name string `json:"name"`
}

// crossName is a reference to an object.
type crossName struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// helmRelease has the fields of a HelmRelease that a migration reads.
type helmRelease struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Chart *struct {
			Spec struct {
				Chart       string      `json:"chart"`
				Version     string      `json:"version"`
				SourceRef   crossName   `json:"sourceRef"`
				ValuesFiles []string    `json:"valuesFiles"`
				Verify      *fluxVerify `json:"verify"`
			} `json:"spec"`
		} `json:"chart"`
		ChartRef   *crossName `json:"chartRef"`
		KubeConfig *struct {
			SecretRef *name `json:"secretRef"`
		} `json:"kubeConfig"`
		Suspend            bool             `json:"suspend"`
		ReleaseName        string           `json:"releaseName"`
		TargetNamespace    string           `json:"targetNamespace"`
		StorageNamespace   string           `json:"storageNamespace"`
		DependsOn          []fluxDependency `json:"dependsOn"`
		Timeout            *metav1.Duration `json:"timeout"`
		MaxHistory         *int32           `json:"maxHistory"`
		ServiceAccountName string           `json:"serviceAccountName"`
		DriftDetection     *struct {
			Mode   string                     `json:"mode"`
			Ignore []addonsv1.DriftIgnoreRule `json:"ignore"`
		} `json:"driftDetection"`
		Install          fluxAction               `json:"install"`
		Upgrade          fluxAction               `json:"upgrade"`
		Rollback         fluxAction               `json:"rollback"`
		Uninstall        fluxAction               `json:"uninstall"`
		Test             fluxTest                 `json:"test"`
		ValuesFrom       []fluxValues             `json:"valuesFrom"`
		Values           map[string]any           `json:"values"`
		CommonMetadata   *addonsv1.ObjectMetadata `json:"commonMetadata"`
		PostRenderers    []fluxPostRenderer       `json:"postRenderers"`
		HealthCheckExprs []addonsv1.HealthCheck   `json:"healthCheckExprs"`
	} `json:"spec"`
	Status struct {
		StorageNamespace string `json:"storageNamespace"`
		History          []struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
			Version   int64  `json:"version"`
			Status    string `json:"status"`
		} `json:"history"`
	} `json:"status"`
}

type fluxDependency struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	ReadyExpr string `json:"readyExpr"`
}

// fluxAction has the fields of install, upgrade, rollback and uninstall.
type fluxAction struct {
	Timeout                  *metav1.Duration   `json:"timeout"`
	DisableWait              bool               `json:"disableWait"`
	DisableHooks             bool               `json:"disableHooks"`
	DisableOpenAPIValidation bool               `json:"disableOpenAPIValidation"`
	DisableSchemaValidation  bool               `json:"disableSchemaValidation"`
	CRDs                     addonsv1.CRDPolicy `json:"crds"`
	SkipCRDs                 bool               `json:"skipCRDs"`
	CreateNamespace          bool               `json:"createNamespace"`
	Force                    bool               `json:"force"`
	PreserveValues           bool               `json:"preserveValues"`
	CleanupOnFail            bool               `json:"cleanupOnFail"`
	KeepHistory              bool               `json:"keepHistory"`
	DeletionPropagation      string             `json:"deletionPropagation"`
	Strategy                 struct {
		Name string `json:"name"`
	} `json:"strategy"`
	Remediation *struct {
		Retries              int32  `json:"retries"`
		Strategy             string `json:"strategy"`
		RemediateLastFailure *bool  `json:"remediateLastFailure"`
		IgnoreTestFailures   bool   `json:"ignoreTestFailures"`
	} `json:"remediation"`
}

type fluxTest struct {
	Enable         bool                  `json:"enable"`
	Timeout        *metav1.Duration      `json:"timeout"`
	IgnoreFailures bool                  `json:"ignoreFailures"`
	Filters        []addonsv1.TestFilter `json:"filters"`
}

type fluxValues struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	ValuesKey  string `json:"valuesKey"`
	TargetPath string `json:"targetPath"`
	Optional   bool   `json:"optional"`
	Literal    bool   `json:"literal"`
}

type fluxPostRenderer struct {
	Kustomize *struct {
		Patches []addonsv1.Patch         `json:"patches"`
		Images  []addonsv1.ImageOverride `json:"images"`
	} `json:"kustomize"`
}

// fluxSource has the fields of an OCIRepository or a HelmRepository that a migration reads.
type fluxSource struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		// Type is "oci" for a HelmRepository of an OCI registry.
		Type string `json:"type"`
		URL  string `json:"url"`
		Ref  *struct {
			Digest       string `json:"digest"`
			Semver       string `json:"semver"`
			SemverFilter string `json:"semverFilter"`
			Tag          string `json:"tag"`
		} `json:"ref"`
		LayerSelector *struct {
			MediaType string `json:"mediaType"`
		} `json:"layerSelector"`
		Provider           addonsv1.RegistryProvider `json:"provider"`
		SecretRef          *addonsv1.SecretReference `json:"secretRef"`
		ServiceAccountName string                    `json:"serviceAccountName"`
		CertSecretRef      *addonsv1.SecretReference `json:"certSecretRef"`
		ProxySecretRef     *addonsv1.SecretReference `json:"proxySecretRef"`
		Interval           metav1.Duration           `json:"interval"`
		Insecure           bool                      `json:"insecure"`
		Verify             *fluxVerify               `json:"verify"`
	} `json:"spec"`
}

// fluxVerify are the signatures that Flux requires.
type fluxVerify struct {
	Provider          addonsv1.VerificationProvider `json:"provider"`
	SecretRef         *addonsv1.SecretReference     `json:"secretRef"`
	MatchOIDCIdentity []struct {
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
	} `json:"matchOIDCIdentity"`
	TrustedRootSecretRef *addonsv1.SecretReference `json:"trustedRootSecretRef"`
}
