// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// StorageType is the place where Helm's records of releases are stored.
// +kubebuilder:validation:Enum=Cluster;Registry
type StorageType string

const (
	// StorageTypeCluster stores the records in Secrets of the workload cluster.
	StorageTypeCluster StorageType = "Cluster"

	// StorageTypeRegistry stores the records in an OCI registry, encrypted. A small part of each record stays in the
	// workload cluster.
	StorageTypeRegistry StorageType = "Registry"
)

// RecordStorage sets where HelmOp stores Helm's records of releases. A record
// contains the chart, values and manifest of one Helm revision. RecordStorage
// applies to new records. HelmOp does not move existing records: each record
// names its own place.
// +kubebuilder:validation:XValidation:rule="!has(self.formerURLs) || has(self.registry)",message="formerURLs needs registry: set registry, because HelmOp reads the former repositories with its credentials"
type RecordStorage struct {
	// type is the place of new records. Default: Registry, if registry is set or
	// the manager has a registry for records. Otherwise, the default is Cluster.
	// - Cluster: Secrets of the workload cluster. HelmOp uses registry only to
	//   read records that are already in the registry.
	// - Registry: an OCI registry, encrypted.
	// +optional
	Type StorageType `json:"type,omitempty"`

	// registry is the OCI registry for records of the type Registry. Default: the
	// registry in the manager's flag --record-storage-url.
	// +optional
	Registry *RecordRegistry `json:"registry,omitempty"`

	// formerURLs are repositories in which HelmOp stored records before, in the
	// same form as registry.url. With the credentials of registry, HelmOp reads
	// the records in these repositories, and deletes records that it no longer
	// needs. HelmOp never sends requests to other repositories, even if a record
	// in a workload cluster names another repository.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=8
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:XValidation:rule="self.startsWith('oci://')",message="formerURLs must start with oci://"
	FormerURLs []string `json:"formerURLs,omitempty"`
}

// RecordRegistry is a repository in an OCI registry that stores records of
// releases. The credentials for this repository must allow pull and push. If
// the credentials do not allow delete, old records stay in the repository.
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || !has(self.insecure) || !self.insecure",message="provider and insecure cannot be set together: remove one of them, because HelmOp does not send the manager's identity without TLS"
type RecordRegistry struct {
	// url is the address of the repository, without tag and digest:
	// oci://<host>[:<port>]/<path>. Example:
	// oci://registry.example.com/helmop/records.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://')",message="url must start with oci://"
	// +kubebuilder:validation:XValidation:rule="self.substring(6).matches('^[A-Za-z0-9.:_\\\\[\\\\]-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*$')",message="url must be oci://<host>[:<port>]/<path>, with the path in lower case and without credentials, tag, digest or trailing slash"
	URL string `json:"url"`

	// secretRef names a Secret of type kubernetes.io/dockerconfigjson with
	// credentials for the registry, as in spec.source.secretRef. The credentials
	// stay in the management cluster.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// provider is the cloud of the registry, as in spec.source.provider. Default:
	// generic.
	// +optional
	// +kubebuilder:default=generic
	Provider RegistryProvider `json:"provider,omitempty"`

	// certSecretRef names a Secret with certificates of certificate authorities
	// and a client certificate, as in spec.source.certSecretRef.
	// +optional
	CertSecretRef *SecretReference `json:"certSecretRef,omitempty"`

	// proxySecretRef names a Secret with the proxy for requests to the registry,
	// as in spec.source.proxySecretRef.
	// +optional
	ProxySecretRef *SecretReference `json:"proxySecretRef,omitempty"`

	// insecure uses HTTP without TLS for requests to the registry. Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`
}
