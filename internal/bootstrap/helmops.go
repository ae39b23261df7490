// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
)

// Names of what is made in Namespace.
const (
	// ProviderHelmOp keeps the provider in step with its artifact, itself included.
	ProviderHelmOp = "helmop"
	// StateHelmOp keeps the management cluster in step with its desired state.
	StateHelmOp = "cluster-state"
	// PullSecret holds the credential with which both are pulled.
	PullSecret = "helmop-pull"
	// CASecret holds the authorities of the registries.
	CASecret = "helmop-registry-ca"
	// VerifySecret holds the key with which both must be signed.
	VerifySecret = "helmop-verify"
)

const (
	// providerHealthTimeout is how long a new manager may take to be ready before the old one takes its version back.
	providerHealthTimeout = 5 * time.Minute
	// stateHealthTimeout is how long what the state consists of may take: Clusters are made in it.
	stateHealthTimeout = time.Hour
)

// Artifact is where one is pulled from.
type Artifact struct {
	// URL is the repository, oci://host/path, and Tag the moving tag.
	URL, Tag string
	// Path is the folder in it; empty for all of it.
	Path string
}

// Access is how registries are reached from the management cluster.
type Access struct {
	// DockerConfig has the credential; nil if there is none.
	DockerConfig []byte
	// CA are authorities to trust beside the system's, in PEM; nil if there are none.
	CA []byte
	// PlainHTTP talks HTTP.
	PlainHTTP bool
	// Provider is the cloud whose identity is used; empty is none.
	Provider addonsv1.RegistryProvider
	// Interval is how often the moving tags are looked at.
	Interval time.Duration
	// VerifyKey is the public key of cosign, in PEM, with which both artifacts must be signed; nil asks for no signature.
	VerifyKey []byte
	// SuspendState has nothing done for the desired state.
	SuspendState bool
}

// HelmOps returns the objects that keep the provider and the desired state in step with the registry, in the order in which they are
// applied.
func HelmOps(provider, state Artifact, access Access) ([]*unstructured.Unstructured, error) {
	var objects []runtime.Object
	if access.DockerConfig != nil {
		objects = append(objects, secret(PullSecret, corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, access.DockerConfig))
	}
	if access.CA != nil {
		objects = append(objects, secret(CASecret, corev1.SecretTypeOpaque, "ca.crt", access.CA))
	}
	if access.VerifyKey != nil {
		objects = append(objects, secret(VerifySecret, corev1.SecretTypeOpaque, "cosign.pub", access.VerifyKey))
	}
	desired := helmOp(StateHelmOp, state, access, addonsv1.ReleaseOptions{
		Health:         &addonsv1.HealthOptions{Timeout: &metav1.Duration{Duration: stateHealthTimeout}},
		DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeCorrect},
	})
	desired.Spec.Paused = access.SuspendState
	objects = append(objects, helmOp(ProviderHelmOp, provider, access, addonsv1.ReleaseOptions{
		Upgrade: &addonsv1.UpgradeOptions{Remediation: &addonsv1.UpgradeRemediation{
			// A version that never becomes ready is tried again in case it was not its own fault, and then no more until there is another.
			Strategy: addonsv1.UpgradeRemediationRollback, Retries: ptr.To[int32](2),
		}},
		Health: &addonsv1.HealthOptions{Timeout: &metav1.Duration{Duration: providerHealthTimeout}},
		// Another run of bootstrap changes the provider a moment before the tag is looked at: that must not be undone.
		DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn},
	}), desired)
	made := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		// What the server writes is no part of what is applied.
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		made = append(made, &unstructured.Unstructured{Object: content})
	}
	return made, nil
}

func secret(name string, kind corev1.SecretType, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		// It goes where the HelmOps that name it go.
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: map[string]string{clusterctlv1.ClusterctlMoveLabel: ""}},
		Type:       kind, Data: map[string][]byte{key: data},
	}
}

// helmOp installs an artifact in the management cluster. Its deletion leaves everything: that of the provider would take away the manager
// which is to carry it out, and that of the state all Clusters.
func helmOp(name string, artifact Artifact, access Access, options addonsv1.ReleaseOptions) *addonsv1.HelmOp {
	source := addonsv1.ArtifactSource{
		URL: artifact.URL, Ref: addonsv1.ArtifactReference{Tag: artifact.Tag}, Path: artifact.Path,
		Interval: metav1.Duration{Duration: access.Interval}, Insecure: access.PlainHTTP, Provider: access.Provider,
	}
	if access.DockerConfig != nil {
		source.SecretRef = &addonsv1.SecretReference{Name: PullSecret}
	}
	if access.CA != nil {
		source.CertSecretRef = &addonsv1.SecretReference{Name: CASecret}
	}
	if access.VerifyKey != nil {
		source.Verify = &addonsv1.Verification{
			Provider: addonsv1.VerificationProviderCosign, SecretRef: &addonsv1.SecretReference{Name: VerifySecret},
		}
	}
	options.Install = &addonsv1.InstallOptions{CreateNamespace: ptr.To(false), CRDs: addonsv1.CRDPolicyCreateReplace}
	if options.Upgrade == nil {
		options.Upgrade = &addonsv1.UpgradeOptions{}
	}
	options.Upgrade.CRDs = addonsv1.CRDPolicyCreateReplace
	return &addonsv1.HelmOp{
		TypeMeta:   metav1.TypeMeta{APIVersion: addonsv1.GroupVersion.String(), Kind: "HelmOp"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec: addonsv1.HelmOpSpec{
			ManagementCluster: &addonsv1.ManagementCluster{ImpersonateServiceAccountName: ServiceAccount},
			Source:            source, ReleaseOptions: options, DeletionPolicy: addonsv1.DeletionPolicyOrphan,
			Release: addonsv1.ReleaseTemplate{Name: name, Namespace: Namespace},
		},
	}
}
