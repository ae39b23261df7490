// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// StorageType is where the records of releases are stored.
// +kubebuilder:validation:Enum=Cluster;Registry
type StorageType string

const (
	// StorageTypeCluster stores them in Secrets of the workload cluster.
	StorageTypeCluster StorageType = "Cluster"

	// StorageTypeRegistry stores all but a small part of them in an OCI registry, encrypted.
	StorageTypeRegistry StorageType = "Registry"
)

// RecordStorage is where Helm's records of releases are stored: chart, values and manifest of each Helm revision. It
// applies to new records. Existing records name their own place and are not moved.
// +kubebuilder:validation:XValidation:rule="!has(self.formerURLs) || has(self.registry)",message="formerURLs requires registry: HelmOp reads the former repositories with its credentials"
type RecordStorage struct {
	// type is Cluster, for Secrets of the workload cluster, or Registry. With Cluster, registry is only read from, for
	// records that are there. Default: Registry if registry is set or the manager has a registry for records, and Cluster
	// otherwise.
	// +optional
	Type StorageType `json:"type,omitempty"`

	// registry keeps the records of the type Registry. Default: that of the manager, see its --record-storage-url.
	// +optional
	Registry *RecordRegistry `json:"registry,omitempty"`

	// formerURLs are repositories in which records were stored before, as in registry.url. They are read and cleaned up
	// with the credentials of registry. The manager requests no other repositories, even if a record in a workload
	// cluster names one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=8
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.startsWith('oci://')",message="formerURLs must start with oci://"
	FormerURLs []string `json:"formerURLs,omitempty"`
}

// RecordRegistry is a repository of an OCI registry that keeps records of releases, and how to reach it. Its
// credentials must allow to pull and to push; without the right to delete, old records stay.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || !has(self.insecure) || !self.insecure",message="provider and insecure exclude each other: the manager's identity is not sent in plain text"
type RecordRegistry struct {
	// url of the repository, without a tag or digest: oci://<host>[:<port>]/<path>.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://')",message="url must start with oci://"
	// +kubebuilder:validation:XValidation:rule="self.substring(6).matches('^[A-Za-z0-9.:_\\\\[\\\\]-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*$')",message="url must name a repository, oci://<host>[:<port>]/<path>, without tag, digest or trailing slash"
	URL string `json:"url"`

	// secretRef names a Secret of type kubernetes.io/dockerconfigjson with the credentials of the registry, as in
	// spec.source.secretRef. They never leave the management cluster.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// provider is the cloud whose registry this is, as in spec.source.provider. Default: generic.
	// +optional
	// +kubebuilder:default=generic
	Provider RegistryProvider `json:"provider,omitempty"`

	// certSecretRef names a Secret with authorities and a client certificate, as in spec.source.certSecretRef.
	// +optional
	CertSecretRef *SecretReference `json:"certSecretRef,omitempty"`

	// proxySecretRef names a Secret with the proxy to reach the registry through, as in spec.source.proxySecretRef.
	// +optional
	ProxySecretRef *SecretReference `json:"proxySecretRef,omitempty"`

	// insecure speaks plain HTTP to the registry. Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}
