// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ArtifactSource is a chart, or manifests, in an OCI registry, or a chart in a Helm chart repository.
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || has(self.chart)",message="a chart repository (https://) needs chart, the name of the chart"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.chart)",message="chart is for chart repositories (https://): with oci://, the name of the chart is the end of url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || has(self.insecure) && self.insecure",message="http:// needs insecure: true"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.layerSelector) && !has(self.path) && !has(self.templating) && (!has(self.format) || self.format == 'HelmChart')",message="layerSelector, path, templating and other formats than HelmChart are for OCI registries: a chart repository has Helm charts only"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.provider) || self.provider == 'generic'",message="provider is for OCI registries: give the credentials of a chart repository in secretRef"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.verify) || self.verify.provider == 'HelmProvenance'",message="a chart repository has no signatures of cosign and notation: use the provider HelmProvenance, or a registry"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.verify) || self.verify.provider != 'HelmProvenance'",message="HelmProvenance is for chart repositories: use cosign or notation with a registry"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.ref.allowMovedVersion) || !self.ref.allowMovedVersion",message="allowMovedVersion is for chart repositories: a tag of a registry may always move"
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'HelmChart' || !has(self.path) && !has(self.templating)",message="path and templating are not for Helm charts"
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'Plain' || !has(self.path)",message="path is not for the format Plain, whose manifests are all in one folder"
// +kubebuilder:validation:XValidation:rule="!has(self.layerSelector) || !has(self.format) || self.format != 'Plain' && self.format != 'Files'",message="layerSelector is not for the formats Plain and Files, which have many layers"
// +kubebuilder:validation:XValidation:rule="!has(self.layerSelector) || has(self.format) || !has(self.path) && !has(self.templating)",message="a selected layer is a Helm chart, without path and templating, unless format says otherwise"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || !has(self.insecure) || !self.insecure",message="provider and insecure exclude each other: the manager's identity is not sent in plain text"
type ArtifactSource struct {
	// url of the repository, without a tag or digest: oci://<host>[:<port>]/<path>. Or the URL of a Helm chart
	// repository, the one that "helm repo add" takes: https://<host>[:<port>]/<path>; http:// only with insecure.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://') || self.startsWith('https://') || self.startsWith('http://')",message="url must start with oci://, or with https:// for a chart repository"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://') || self.matches('^https?://[A-Za-z0-9.:_\\\\[\\\\]-]+(/[A-Za-z0-9._~%:,=+/-]*)?$')",message="url must be https://<host>[:<port>]/<path>, without credentials, query or fragment"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.substring(6).matches('^[A-Za-z0-9.:_\\\\[\\\\]-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*$')",message="url must name a repository, oci://<host>[:<port>]/<path>, without tag, digest or trailing slash"
	URL string `json:"url"`

	// chart is the name of the chart in a chart repository. Required with https://, and not allowed with oci://.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')",message="chart must consist of letters, digits, '.', '_' and '-'"
	Chart string `json:"chart,omitempty"`

	// ref selects the artifact in the repository: by tag, digest, version range or tag filter. In a chart repository, the
	// tags are the versions of the chart, and the digest is the SHA-256 of its archive.
	// +required
	Ref ArtifactReference `json:"ref"`

	// interval is how often a moving reference (tag or semver) is resolved again. A digest never is. A value below
	// the minimum of the manager (flag --min-source-interval, 30s unless set) counts as that minimum. Default: 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="interval must be at least 1s and at most 720h"
	Interval metav1.Duration `json:"interval,omitempty,omitzero"`

	// secretRef names a Secret of type kubernetes.io/dockerconfigjson with the credentials of the registry. HelmOp uses
	// only its "auths" and ignores credential helpers, because these would run programs. HelmOp uses the first of these
	// that has a credential for the repository: secretRef, imagePullServiceAccountName, provider, the manager's own
	// file. For a chart repository, the Secret may have the keys username and password instead. Credentials never leave
	// the management cluster.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// imagePullServiceAccountName names a ServiceAccount of the namespace of the HelmOp whose imagePullSecrets hold
	// credentials of the registry.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImagePullServiceAccountName string `json:"imagePullServiceAccountName,omitempty"`

	// provider is the cloud of the registry: aws (ECR), azure (ACR) or gcp (Artifact Registry). The manager logs in with
	// its own cloud identity, except with insecure or with a ca.crt of certSecretRef. With generic, the manager does not
	// log in to a cloud. Default: generic.
	// +optional
	// +kubebuilder:default=generic
	Provider RegistryProvider `json:"provider,omitempty"`

	// certSecretRef names a Secret with TLS files. ca.crt: PEM certificates of additional authorities to trust. tls.crt
	// and tls.key: the client certificate. At least one of the two must be set.
	// +optional
	CertSecretRef *SecretReference `json:"certSecretRef,omitempty"`

	// proxySecretRef names a Secret with the proxy for requests to the registry. Its key address has the URL, <http,
	// https or socks5>://<host>:<port>; the keys username and password have the credentials, if the proxy needs any.
	// Default: the proxy in the environment of the manager.
	// +optional
	ProxySecretRef *SecretReference `json:"proxySecretRef,omitempty"`

	// insecure speaks plain HTTP to the registry, and permits http:// for a chart repository. Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// format of the artifact: HelmChart; Flux, a folder as "flux push artifact" packs it; Plain, an image with
	// manifests in its folder /manifests (plain+v0 of rukpak); Files, manifests or folders as "oras push" stores them;
	// Fleet, a list of files as Fleet stores it. For all formats but HelmChart, the objects in YAML and JSON files are
	// installed without changes, as a Helm release. Default: detected by the media types of the artifact.
	// +optional
	Format ArtifactFormat `json:"format,omitempty"`

	// path is the folder of the artifact whose manifests are installed, with those in folders below it; not for HelmChart
	// and Plain. A folder with a kustomization.yaml is built as kustomize does, as far as it stays within the artifact.
	// Default: the whole artifact.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",message="path must be relative and stay within the artifact"
	Path string `json:"path,omitempty"`

	// templating is how files of an artifact that is not a Helm chart are read. None installs their objects without
	// changes and ignores values. Helm renders the files as templates of a chart, with the values, .Release and
	// .Capabilities. Default: None.
	// +optional
	Templating ArtifactTemplating `json:"templating,omitempty"`

	// layerSelector selects the layer with the chart. Default: the layer with Helm's own media type.
	// +optional
	LayerSelector *LayerSelector `json:"layerSelector,omitempty"`

	// verify requires a signature: an artifact that is not signed as verify requires is not installed. Releases that
	// are already installed are not changed.
	// +optional
	Verify *Verification `json:"verify,omitempty"`
}

// ArtifactFormat is what an artifact is.
// +kubebuilder:validation:Enum=HelmChart;Flux;Plain;Files;Fleet
type ArtifactFormat string

// ArtifactFormatHelmChart is a Helm chart.
const ArtifactFormatHelmChart ArtifactFormat = "HelmChart"

// ArtifactTemplating is how manifests are read.
// +kubebuilder:validation:Enum=None;Helm
type ArtifactTemplating string

const (
	// TemplatingNone takes manifests as they are.
	TemplatingNone ArtifactTemplating = "None"

	// TemplatingHelm takes manifests for templates of Helm.
	TemplatingHelm ArtifactTemplating = "Helm"
)

// RegistryProvider is a cloud whose registry the manager logs in to with its own identity.
// +kubebuilder:validation:Enum=generic;aws;azure;gcp
type RegistryProvider string

// RegistryProviderGeneric logs in nowhere.
const RegistryProviderGeneric RegistryProvider = "generic"

// LayerSelector chooses a layer of an artifact.
type LayerSelector struct {
	// mediaType of the layer; the first layer of that type is used. It must hold a chart archive (.tgz), unless format
	// says otherwise.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	MediaType string `json:"mediaType"`
}

// Verification is which signatures an artifact must have.
// +kubebuilder:validation:XValidation:rule="self.provider != 'HelmProvenance' || has(self.secretRef) && !has(self.identities) && !has(self.trustedRootSecretRef)",message="HelmProvenance needs secretRef, with a keyring, and neither identities nor trustedRootSecretRef"
// +kubebuilder:validation:XValidation:rule="self.provider != 'notation' || has(self.secretRef)",message="notation needs secretRef, with the trust policy and the certificates"
// +kubebuilder:validation:XValidation:rule="self.provider != 'notation' || !has(self.identities) && !has(self.trustedRootSecretRef)",message="identities and trustedRootSecretRef are for cosign only"
// +kubebuilder:validation:XValidation:rule="self.provider != 'cosign' || has(self.secretRef) != has(self.identities)",message="cosign needs either secretRef, with public keys, or identities, for signatures without keys"
// +kubebuilder:validation:XValidation:rule="!has(self.trustedRootSecretRef) || has(self.identities)",message="trustedRootSecretRef is for signatures without keys: set identities"
type Verification struct {
	// provider of the signatures: cosign or notation for OCI registries; HelmProvenance, the provenance file (.prov)
	// beside the archive, for chart repositories. Default: cosign.
	// +optional
	// +kubebuilder:default=cosign
	Provider VerificationProvider `json:"provider,omitempty"`

	// secretRef names a Secret with what to trust. For cosign: public keys (PEM) in keys that end with .pub; the
	// artifact must be signed with any of them. For notation: the trust policy in trustpolicy.json and certificates
	// (PEM) in keys that end with .crt or .pem. For HelmProvenance: public keys of OpenPGP, binary or armored, in keys
	// that end with .gpg, .pgp or .asc.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// identities are the signers to trust for cosign without a key. One match is enough.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Identities []SignerIdentity `json:"identities,omitempty"`

	// trustedRootSecretRef names a Secret whose key trusted_root.json holds the certificates and keys of a private
	// Sigstore. Without it, the public Sigstore is trusted, and must be reachable for its root.
	// +optional
	TrustedRootSecretRef *SecretReference `json:"trustedRootSecretRef,omitempty"`
}

// VerificationProvider is a way of signing artifacts.
// +kubebuilder:validation:Enum=cosign;notation;HelmProvenance
type VerificationProvider string

const (
	// VerificationProviderCosign is Sigstore's cosign.
	VerificationProviderCosign VerificationProvider = "cosign"

	// VerificationProviderNotation is the Notary Project's notation.
	VerificationProviderNotation VerificationProvider = "notation"

	// VerificationProviderHelmProvenance is Helm's provenance file, signed with OpenPGP.
	VerificationProviderHelmProvenance VerificationProvider = "HelmProvenance"
)

// SignerIdentity is who must have signed: an identity, and who vouches for it.
// +kubebuilder:validation:XValidation:rule="has(self.issuer) != has(self.issuerRegExp)",message="exactly one of issuer and issuerRegExp must be set"
// +kubebuilder:validation:XValidation:rule="has(self.subject) != has(self.subjectRegExp)",message="exactly one of subject and subjectRegExp must be set"
type SignerIdentity struct {
	// issuer is the exact URL of the OIDC issuer, for example https://token.actions.githubusercontent.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`

	// issuerRegExp is a regular expression (RE2) that the whole issuer must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="issuerRegExp is not a regular expression"
	IssuerRegExp string `json:"issuerRegExp,omitempty"`

	// subject is the exact identity: an e-mail address, or the URI of a workflow.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Subject string `json:"subject,omitempty"`

	// subjectRegExp is a regular expression (RE2) that the whole subject must match.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="subjectRegExp is not a regular expression"
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
}

// ArtifactReference selects an artifact of a repository: by exactly one of tag, digest and semver, or by tagFilter.
// +kubebuilder:validation:XValidation:rule="[has(self.tag), has(self.digest), has(self.semver)].filter(x, x).size() == (has(self.tagFilter) && !has(self.semver) ? 0 : 1)",message="exactly one of tag, digest and semver must be set; tagFilter goes with semver or stands alone"
// +kubebuilder:validation:XValidation:rule="!has(self.allowDowngrade) || !self.allowDowngrade || has(self.semver) || has(self.tagFilter)",message="allowDowngrade goes with semver or tagFilter"
type ArtifactReference struct {
	// tag is a fixed tag. It is resolved again at every interval: content that moves under it reaches the releases.
	// A version with build metadata may be written with + or, as registries store it, with _.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9._+-]*$')",message="tag must consist of letters, digits, '.', '_', '-' and '+'"
	Tag string `json:"tag,omitempty"`

	// digest of a manifest. It never moves.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[a-f0-9]{64}$')",message="digest must be sha256: and 64 hexadecimal digits"
	Digest string `json:"digest,omitempty"`

	// semver is a range of versions, for example "~3.30" or ">=1.2 <2"; the highest tag in it is used. Pre-releases
	// count only if the range names one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Semver string `json:"semver,omitempty"`

	// tagFilter is a regular expression (RE2), not anchored. HelmOp ignores tags that do not match. With semver: the
	// highest version in the range among the matching tags. Without semver: the highest version among the matching
	// tags. If no tag is a version, the last tag in natural order: main-10 comes after main-9.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="tagFilter is not a regular expression"
	TagFilter string `json:"tagFilter,omitempty"`

	// allowDowngrade permits an older version than the current one if semver or tagFilter selects one, for example because
	// the registry no longer lists the current tag. Without it, the current version stays until a newer one is listed or
	// the source is edited. Default: false.
	// +optional
	AllowDowngrade bool `json:"allowDowngrade,omitempty"`

	// allowMovedVersion permits that a chart repository replaces the archive of a version that is in use. Without it, the
	// current archive stays until another version is selected or the source is edited. Default: false.
	// +optional
	AllowMovedVersion bool `json:"allowMovedVersion,omitempty"`
}

// ResolvedArtifact is the artifact that a reference was resolved to.
type ResolvedArtifact struct {
	// url of the repository. For a chart repository, a slash and the name of the chart follow.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=768
	URL string `json:"url"`

	// digest of the manifest, or of the archive from a chart repository.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`

	// tag that was resolved to the digest; empty if the reference is a digest.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Tag string `json:"tag,omitempty"`

	// version of the artifact.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// layerMediaType is the media type of the layer that is the chart, where spec.source.layerSelector chooses it.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	LayerMediaType string `json:"layerMediaType,omitempty"`

	// format of the artifact; empty for a Helm chart.
	// +optional
	Format ArtifactFormat `json:"format,omitempty"`

	// path is the folder of the artifact whose manifests are installed; empty for all.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// templating is how manifests are read; empty for None.
	// +optional
	Templating ArtifactTemplating `json:"templating,omitempty"`
}

// ArtifactStatus is the artifact that the source of a HelmOp was resolved to.
type ArtifactStatus struct {
	ResolvedArtifact `json:",inline"`

	// resolvedAt is when spec.source was first resolved to this artifact. Later checks with the same result do not
	// change it.
	// +optional
	ResolvedAt metav1.Time `json:"resolvedAt,omitempty,omitzero"`

	// mediaType is the artifact type of the artifact or, without one, the media type of its config.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	MediaType string `json:"mediaType,omitempty"`

	// provenance has the annotations of the artifact that describe its origin. Only a signature proves them.
	// +optional
	Provenance *Provenance `json:"provenance,omitempty"`

	// verification is who signed the artifact; set if spec.source.verify is set.
	// +optional
	Verification *VerificationStatus `json:"verification,omitempty"`

	// sourceDigest is the digest of the spec.source that was resolved.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SourceDigest string `json:"sourceDigest,omitempty"`
}

// Provenance has the annotations of an artifact that describe its origin. Longer values are cut to the length of their
// field.
type Provenance struct {
	// source is the annotation org.opencontainers.image.source: the URL of the source code.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Source string `json:"source,omitempty"`

	// revision is the annotation org.opencontainers.image.revision: the revision of the source code.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Revision string `json:"revision,omitempty"`

	// created is the annotation org.opencontainers.image.created: when the artifact was made.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Created string `json:"created,omitempty"`
}

// VerificationStatus is who signed an artifact.
type VerificationStatus struct {
	// provider of the signatures: cosign or notation.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Provider VerificationProvider `json:"provider,omitempty"`

	// signers are the identities and keys with valid signatures.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	Signers []string `json:"signers,omitempty"`

	// policyDigest is the digest of the verification policy, with its keys, that the result applies to.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PolicyDigest string `json:"policyDigest,omitempty"`
}
