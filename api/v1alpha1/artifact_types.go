// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ArtifactSource is a chart, or manifests, in an OCI registry, or a chart in a
// Helm chart repository.
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || has(self.chart)",message="a chart repository (https://) needs the name of the chart: set chart"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.chart)",message="chart is for chart repositories (https://): with oci://, remove chart and write the name of the chart at the end of url"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('http://') || has(self.insecure) && self.insecure",message="a url with http:// needs insecure: true: set insecure, or use https://"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.layerSelector) && !has(self.path) && !has(self.templating) && (!has(self.format) || self.format == 'HelmChart')",message="a chart repository (https://) has Helm charts only: remove layerSelector, path, templating and format, or use an OCI registry (oci://)"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.provider) || self.provider == 'generic'",message="provider is for OCI registries (oci://): remove it, and set the credentials of the chart repository in secretRef"
// +kubebuilder:validation:XValidation:rule="self.url.startsWith('oci://') || !has(self.verify) || self.verify.provider == 'HelmProvenance'",message="a chart repository (https://) has no signatures of cosign or notation: set verify.provider to HelmProvenance, or use an OCI registry (oci://)"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.verify) || self.verify.provider != 'HelmProvenance'",message="the provider HelmProvenance is for chart repositories (https://): with oci://, set verify.provider to cosign or notation"
// +kubebuilder:validation:XValidation:rule="!self.url.startsWith('oci://') || !has(self.ref.allowMovedVersion) || !self.ref.allowMovedVersion",message="allowMovedVersion is for chart repositories (https://): remove it, because a tag in an OCI registry may always move"
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'HelmChart' || !has(self.path) && !has(self.templating)",message="path and templating are not for Helm charts: remove them, or set another format"
// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'Plain' || !has(self.path)",message="path is not for the format Plain: remove path, because all manifests of Plain are in one folder"
// +kubebuilder:validation:XValidation:rule="!has(self.layerSelector) || !has(self.format) || self.format != 'Plain' && self.format != 'Files'",message="layerSelector is not for the formats Plain and Files: remove layerSelector, because HelmOp reads all their layers"
// +kubebuilder:validation:XValidation:rule="!has(self.layerSelector) || has(self.format) || !has(self.path) && !has(self.templating)",message="path and templating are not for Helm charts, and layerSelector selects a Helm chart unless format is set: set format to Flux or Fleet, or remove path and templating"
// +kubebuilder:validation:XValidation:rule="!has(self.provider) || self.provider == 'generic' || !has(self.insecure) || !self.insecure",message="provider and insecure cannot be set together: remove one of them, because HelmOp does not send the manager's identity without TLS"
type ArtifactSource struct {
	// url is the address of the repository:
	// - oci://<host>[:<port>]/<path> is a repository of an OCI registry, without
	//   tag and digest. Example: oci://registry.example.com/charts/cni.
	// - https://<host>[:<port>]/<path> is a Helm chart repository, as in "helm
	//   repo add". Set chart, too. http:// is possible only with insecure.
	// +required
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://') || self.startsWith('https://') || self.startsWith('http://')",message="url must start with oci://, or with https:// for a chart repository"
	// +kubebuilder:validation:XValidation:rule="self.startsWith('oci://') || self.matches('^https?://[A-Za-z0-9.:_\\\\[\\\\]-]+(/[A-Za-z0-9._~%:,=+/-]*)?$')",message="url must be https://<host>[:<port>]/<path>, without credentials, query or fragment"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.substring(6).matches('^[A-Za-z0-9.:_\\\\[\\\\]-]+/[a-z0-9]+([._/-]+[a-z0-9]+)*$')",message="url must be oci://<host>[:<port>]/<path>, with the path in lower case and without credentials, tag, digest or trailing slash"
	URL string `json:"url"`

	// chart is the name of the chart in a Helm chart repository. If url begins
	// with https://, chart is required. If url begins with oci://, chart is not
	// allowed, because url contains the name of the chart.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')",message="chart must consist of letters, digits, '.', '_' and '-'"
	Chart string `json:"chart,omitempty"`

	// ref selects one artifact of the repository: by tag, digest, version range or
	// tag filter. In a Helm chart repository, a tag is a version of the chart, and
	// the digest is the SHA-256 of the chart archive.
	// +required
	Ref ArtifactReference `json:"ref"`

	// interval is the time between two lookups of a tag, version range or tag
	// filter in the registry. If ref is a digest, HelmOp does not repeat the
	// lookup. Example: 10m or 1h. Default: 10m. If interval is shorter than the
	// manager's flag --min-source-interval (default 30s), HelmOp uses the value of
	// the flag.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="interval must be at least 1s and at most 720h, for example 10m"
	Interval metav1.Duration `json:"interval,omitempty,omitzero"`

	// secretRef names a Secret with credentials for the registry. The type of the
	// Secret is kubernetes.io/dockerconfigjson. HelmOp reads only "auths" in this
	// Secret. HelmOp ignores credential helpers, because credential helpers run
	// programs. For a Helm chart repository, you can also use a Secret with the
	// keys username and password.
	//
	// HelmOp uses the first credential that it finds for the repository, in this
	// order: secretRef, imagePullServiceAccountName, provider, the credentials
	// file of the manager. HelmOp does not copy credentials to workload clusters.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// imagePullServiceAccountName is the name of a ServiceAccount in the namespace
	// of the HelmOp. HelmOp uses the credentials in the imagePullSecrets of this
	// ServiceAccount.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ImagePullServiceAccountName string `json:"imagePullServiceAccountName,omitempty"`

	// provider is the cloud of the registry. With aws, azure or gcp, the manager
	// logs in to the registry with its own cloud identity. You cannot use these
	// values together with insecure, or with a ca.crt in the Secret in
	// certSecretRef: another server could then get the credentials of the manager.
	// Default: generic.
	// - generic: no login to a cloud.
	// - aws: Amazon ECR.
	// - azure: Azure Container Registry.
	// - gcp: Google Artifact Registry.
	// +optional
	// +kubebuilder:default=generic
	Provider RegistryProvider `json:"provider,omitempty"`

	// certSecretRef names a Secret with TLS files in PEM format. ca.crt contains
	// certificates of additional certificate authorities to trust. tls.crt and
	// tls.key are the client certificate and its key. The Secret must have ca.crt,
	// or tls.crt with tls.key, or both.
	// +optional
	CertSecretRef *SecretReference `json:"certSecretRef,omitempty"`

	// proxySecretRef names a Secret with the proxy for requests to the registry.
	// The Secret has the URL of the proxy in the key "address", for example
	// http://proxy.example.com:3128. The scheme of the URL is http, https or
	// socks5. The keys "username" and "password" are optional. Default: the proxy
	// in the environment variables of the manager.
	// +optional
	ProxySecretRef *SecretReference `json:"proxySecretRef,omitempty"`

	// insecure uses HTTP without TLS for requests to the registry, and allows
	// http:// in url. Default: false.
	// +optional
	Insecure bool `json:"insecure,omitempty"`

	// format is the format of the artifact. Default: HelmOp detects the format by
	// the media types of the artifact.
	// - HelmChart: a Helm chart.
	// - Flux: a folder, packed by "flux push artifact".
	// - Plain: an image with manifests in its folder /manifests (plain+v0 of
	//   rukpak).
	// - Files: manifests or folders, stored by "oras push".
	// - Fleet: a list of files, stored by Rancher Fleet.
	//
	// For all formats except HelmChart, HelmOp installs the objects in the YAML
	// and JSON files as a Helm release.
	// +optional
	Format ArtifactFormat `json:"format,omitempty"`

	// path is the folder in the artifact that contains the manifests. HelmOp
	// installs the manifests in this folder and in all folders below it. If the
	// folder has a kustomization.yaml, HelmOp builds the kustomization as
	// kustomize does. A kustomization may use only files of the artifact. path is
	// not allowed for the formats HelmChart and Plain. Example:
	// "deploy/production". Default: the whole artifact.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",message="path must be a folder of the artifact: without a leading / and without .., for example deploy/production"
	Path string `json:"path,omitempty"`

	// templating sets how HelmOp reads the files of an artifact that is not a Helm
	// chart. Default: None.
	// - None: HelmOp installs the objects without changes and ignores values.
	// - Helm: HelmOp renders the files as templates of a Helm chart, with .Values,
	//   .Release and .Capabilities.
	// +optional
	Templating ArtifactTemplating `json:"templating,omitempty"`

	// layerSelector selects the layer of the artifact that contains the chart.
	// Default: the layer with the media type of Helm charts.
	// +optional
	LayerSelector *LayerSelector `json:"layerSelector,omitempty"`

	// verify sets which signature the artifact must have. HelmOp does not install
	// an artifact without a valid signature. If a signature is missing, installed
	// releases do not change. Default: no signature is required.
	// +optional
	Verify *Verification `json:"verify,omitempty"`
}

// ArtifactFormat is the format of an artifact.
// +kubebuilder:validation:Enum=HelmChart;Flux;Plain;Files;Fleet
type ArtifactFormat string

// ArtifactFormatHelmChart is a Helm chart.
const ArtifactFormatHelmChart ArtifactFormat = "HelmChart"

// ArtifactTemplating is how HelmOp reads the manifests of an artifact.
// +kubebuilder:validation:Enum=None;Helm
type ArtifactTemplating string

const (
	// TemplatingNone installs manifests without changes.
	TemplatingNone ArtifactTemplating = "None"

	// TemplatingHelm renders manifests as templates of a Helm chart.
	TemplatingHelm ArtifactTemplating = "Helm"
)

// RegistryProvider is the cloud of a registry. The manager logs in to the
// registry with its own cloud identity.
// +kubebuilder:validation:Enum=generic;aws;azure;gcp
type RegistryProvider string

// RegistryProviderGeneric does not log in to a cloud.
const RegistryProviderGeneric RegistryProvider = "generic"

// LayerSelector selects a layer of an artifact.
type LayerSelector struct {
	// mediaType is the media type of the layer. HelmOp uses the first layer with
	// this media type. The layer must contain a chart archive (.tgz), unless
	// format is set to another format than HelmChart.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	MediaType string `json:"mediaType"`
}

// Verification sets which signatures an artifact must have.
// +kubebuilder:validation:XValidation:rule="self.provider != 'HelmProvenance' || has(self.secretRef) && !has(self.identities) && !has(self.trustedRootSecretRef)",message="the provider HelmProvenance needs secretRef, a Secret with OpenPGP public keys: remove identities and trustedRootSecretRef"
// +kubebuilder:validation:XValidation:rule="self.provider != 'notation' || has(self.secretRef)",message="the provider notation needs secretRef, a Secret with the trust policy and the certificates"
// +kubebuilder:validation:XValidation:rule="self.provider != 'notation' || !has(self.identities) && !has(self.trustedRootSecretRef)",message="identities and trustedRootSecretRef are for the provider cosign: remove them"
// +kubebuilder:validation:XValidation:rule="self.provider != 'cosign' || has(self.secretRef) != has(self.identities)",message="the provider cosign needs exactly one of secretRef (public keys) and identities (signatures without keys)"
// +kubebuilder:validation:XValidation:rule="!has(self.trustedRootSecretRef) || has(self.identities)",message="trustedRootSecretRef is for signatures without keys: set identities, or remove trustedRootSecretRef"
type Verification struct {
	// provider is the kind of signature that the artifact must have. Default:
	// cosign.
	// - cosign: a signature of Sigstore's cosign, for OCI registries.
	// - notation: a signature of the Notary Project's notation, for OCI
	//   registries.
	// - HelmProvenance: the provenance file (.prov) next to the chart archive, for
	//   Helm chart repositories.
	// +optional
	// +kubebuilder:default=cosign
	Provider VerificationProvider `json:"provider,omitempty"`

	// secretRef names a Secret with the keys or certificates to trust.
	// - cosign: public keys (PEM), in keys of the Secret that end with .pub. One
	//   valid signature by any of these public keys is enough.
	// - notation: the trust policy in the key trustpolicy.json of the Secret, and
	//   certificates (PEM) in keys of the Secret that end with .crt or .pem.
	// - HelmProvenance: OpenPGP public keys, binary or armored, in keys of the
	//   Secret that end with .gpg, .pgp or .asc.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// identities are the signers to trust, for cosign signatures without a key.
	// The artifact needs a signature by one of these signers.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Identities []SignerIdentity `json:"identities,omitempty"`

	// trustedRootSecretRef names a Secret with the root of trust of a private
	// Sigstore, in the key trusted_root.json. Default: the public Sigstore. For
	// this default, the manager must be able to download the root of trust of the
	// public Sigstore.
	// +optional
	TrustedRootSecretRef *SecretReference `json:"trustedRootSecretRef,omitempty"`
}

// VerificationProvider is a kind of signature.
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

// SignerIdentity is an identity that must have signed the artifact, and the
// OIDC issuer that confirms the identity.
// +kubebuilder:validation:XValidation:rule="has(self.issuer) != has(self.issuerRegExp)",message="exactly one of issuer and issuerRegExp must be set"
// +kubebuilder:validation:XValidation:rule="has(self.subject) != has(self.subjectRegExp)",message="exactly one of subject and subjectRegExp must be set"
type SignerIdentity struct {
	// issuer is the exact URL of the OIDC issuer. Example:
	// https://token.actions.githubusercontent.com. Set exactly one of issuer and
	// issuerRegExp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Issuer string `json:"issuer,omitempty"`

	// issuerRegExp is a regular expression (RE2) that must match the whole URL of
	// the OIDC issuer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="issuerRegExp is not a valid regular expression (RE2)"
	IssuerRegExp string `json:"issuerRegExp,omitempty"`

	// subject is the exact identity of the signer: an e-mail address, or the URI
	// of a workflow. Example:
	// https://github.com/example/charts/.github/workflows/release.yml@refs/heads/main.
	// Set exactly one of subject and subjectRegExp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Subject string `json:"subject,omitempty"`

	// subjectRegExp is a regular expression (RE2) that must match the whole
	// identity of the signer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="subjectRegExp is not a valid regular expression (RE2)"
	SubjectRegExp string `json:"subjectRegExp,omitempty"`
}

// ArtifactReference selects one artifact of a repository: by exactly one of
// tag, digest and semver, or by tagFilter. tagFilter may also be set together
// with semver.
// +kubebuilder:validation:XValidation:rule="[has(self.tag), has(self.digest), has(self.semver)].filter(x, x).size() == (has(self.tagFilter) && !has(self.semver) ? 0 : 1)",message="exactly one of tag, digest and semver must be set; tagFilter may be set alone or with semver"
// +kubebuilder:validation:XValidation:rule="!has(self.allowDowngrade) || !self.allowDowngrade || has(self.semver) || has(self.tagFilter)",message="allowDowngrade has no effect with tag or digest: remove it, or use semver or tagFilter"
type ArtifactReference struct {
	// tag is the tag of the artifact, for example "1.17.2". HelmOp repeats the
	// lookup of the tag at every interval. If the tag moves to another artifact,
	// HelmOp upgrades the releases. Registries store the "+" in a version with
	// build metadata as "_". In tag, you can write "+" or "_".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_][A-Za-z0-9._+-]*$')",message="tag must consist of letters, digits, '.', '_', '-' and '+'"
	Tag string `json:"tag,omitempty"`

	// digest is the digest of the manifest of the artifact: "sha256:" and 64
	// hexadecimal digits. HelmOp installs exactly this artifact.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[a-f0-9]{64}$')",message="digest must be sha256: followed by 64 hexadecimal digits in lower case"
	Digest string `json:"digest,omitempty"`

	// semver is a range of versions. HelmOp uses the highest version in the range.
	// Examples: "~3.30" or ">=1.2 <2". A range includes pre-releases only if the
	// range contains a pre-release, for example ">=1.2.0-0".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Semver string `json:"semver,omitempty"`

	// tagFilter is a regular expression (RE2). HelmOp ignores tags that do not
	// match. The expression may match any part of a tag: use ^ and $ to match the
	// whole tag. Example: "^main-[0-9]+$".
	// - With semver: HelmOp uses the highest version in the range, among the
	//   matching tags.
	// - Without semver: HelmOp uses the highest version among the matching tags.
	//   If no matching tag is a version, HelmOp uses the last tag in natural
	//   order: main-10 comes after main-9.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="'x'.matches(self) in [true, false]",message="tagFilter is not a valid regular expression (RE2)"
	TagFilter string `json:"tagFilter,omitempty"`

	// allowDowngrade sets what happens if semver or tagFilter selects an older
	// version than the current version. For example, this happens if the current
	// tag is deleted in the registry. With true, HelmOp installs the older
	// version. With false, HelmOp keeps the current version until the registry has
	// a newer version, or spec.source no longer matches the current version.
	// Default: false.
	// +optional
	AllowDowngrade bool `json:"allowDowngrade,omitempty"`

	// allowMovedVersion allows a new archive for the version in use, if the Helm
	// chart repository replaces the archive. With false, HelmOp keeps the current
	// archive until another version is selected or spec.source changes. Default:
	// false.
	// +optional
	AllowMovedVersion bool `json:"allowMovedVersion,omitempty"`
}

// ResolvedArtifact is the artifact that HelmOp found for a reference.
type ResolvedArtifact struct {
	// url is the URL of the repository. For a Helm chart repository, a slash and
	// the name of the chart follow.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=768
	URL string `json:"url"`

	// digest is the digest of the manifest of the artifact. For a Helm chart
	// repository, it is the digest of the chart archive.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	Digest string `json:"digest"`

	// tag is the tag that HelmOp looked up. If the reference is a digest, tag is
	// empty.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Tag string `json:"tag,omitempty"`

	// version of the artifact, for example the version of the chart.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// layerMediaType is the media type of the layer that contains the chart. If
	// spec.source.layerSelector is not set, layerMediaType is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	LayerMediaType string `json:"layerMediaType,omitempty"`

	// format of the artifact. It is empty for a Helm chart.
	// +optional
	Format ArtifactFormat `json:"format,omitempty"`

	// path is the folder of the artifact that HelmOp installs. It is empty for the
	// whole artifact.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// templating sets whether HelmOp renders the files of the artifact as
	// templates, see spec.source.templating of HelmOp. It is empty for None.
	// +optional
	Templating ArtifactTemplating `json:"templating,omitempty"`
}

// ArtifactStatus is the artifact that HelmOp found for the source.
type ArtifactStatus struct {
	ResolvedArtifact `json:",inline"`

	// resolvedAt is the time of the first lookup that found this artifact. Later
	// lookups with the same result do not change resolvedAt.
	// +optional
	ResolvedAt metav1.Time `json:"resolvedAt,omitempty,omitzero"`

	// mediaType is the artifactType of the manifest. If the manifest has no
	// artifactType, mediaType is the media type of its config.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	MediaType string `json:"mediaType,omitempty"`

	// provenance contains the annotations of the artifact about its origin. Only a
	// signature of the artifact proves these annotations.
	// +optional
	Provenance *Provenance `json:"provenance,omitempty"`

	// verification is the result of the signature check. If spec.source.verify is
	// not set, verification is absent.
	// +optional
	Verification *VerificationStatus `json:"verification,omitempty"`

	// sourceDigest is the digest of spec.source at the time of the lookup.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SourceDigest string `json:"sourceDigest,omitempty"`
}

// Provenance contains the annotations of an artifact about its origin. HelmOp
// truncates a value that is too long for its field.
type Provenance struct {
	// source is the URL of the source code, from the annotation
	// org.opencontainers.image.source.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Source string `json:"source,omitempty"`

	// revision is the source revision, for example a Git commit, from the
	// annotation org.opencontainers.image.revision.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Revision string `json:"revision,omitempty"`

	// created is the time when the artifact was built, from the annotation
	// org.opencontainers.image.created.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Created string `json:"created,omitempty"`
}

// VerificationStatus is the result of a signature check.
type VerificationStatus struct {
	// provider is the kind of the valid signatures: cosign, notation or
	// HelmProvenance.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Provider VerificationProvider `json:"provider,omitempty"`

	// signers are the identities or keys of the valid signatures.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	Signers []string `json:"signers,omitempty"`

	// policyDigest is the digest of spec.source.verify and its keys at the time of
	// the signature check.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	PolicyDigest string `json:"policyDigest,omitempty"`
}
