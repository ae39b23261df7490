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

// Names of objects in Namespace.
const (
	// ProviderHelmOp keeps the provider, including this HelmOp's own controller, in sync with its artifact.
	ProviderHelmOp = "helmop"
	// StateHelmOp keeps the management cluster in sync with its desired state.
	StateHelmOp = "cluster-state"
	// PullSecret holds the credential for pulling both artifacts.
	PullSecret = "helmop-pull"
	// CASecret holds the CAs of the registries.
	CASecret = "helmop-registry-ca"
	// VerifySecret holds the public key for the signatures of both artifacts.
	VerifySecret = "helmop-verify"
)

const (
	// providerHealthTimeout is how long a new manager may take to become ready. After this time, it is rolled back.
	providerHealthTimeout = 5 * time.Minute
	// stateHealthTimeout is how long the objects of the state may take to become ready, which includes new Clusters.
	stateHealthTimeout = time.Hour
)

// Artifact is the place of an artifact in a registry.
type Artifact struct {
	// URL is the repository, oci://host/path. Tag is the moving tag.
	URL, Tag string
	// Path is the folder in the artifact; empty for the whole artifact.
	Path string
}

// Access configures how the management cluster reaches the registries.
type Access struct {
	// DockerConfig holds the credential; nil to pull anonymously.
	DockerConfig []byte
	// CA holds CAs in PEM to trust in addition to the system's; nil for none.
	CA []byte
	// PlainHTTP uses HTTP instead of HTTPS.
	PlainHTTP bool
	// Provider is the cloud provider for workload identity; empty for none.
	Provider addonsv1.RegistryProvider
	// Interval is how often the moving tags are resolved.
	Interval time.Duration
	// VerifyKey is cosign's public key in PEM for the signatures of both artifacts; nil requires no signatures.
	VerifyKey []byte
	// PauseState pauses the HelmOp of the desired state.
	PauseState bool
}

// HelmOps returns the objects that keep the provider and the desired state in sync with the registry, in the order in
// which they are applied.
func HelmOps(provider, state Artifact, access Access) ([]*unstructured.Unstructured, error) {
	var objects []runtime.Object
	if access.DockerConfig != nil {
		objects = append(
			objects,
			secret(PullSecret, corev1.SecretTypeDockerConfigJson, corev1.DockerConfigJsonKey, access.DockerConfig),
		)
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
	desired.Spec.Paused = access.PauseState
	objects = append(objects, helmOp(ProviderHelmOp, provider, access, addonsv1.ReleaseOptions{
		Upgrade: &addonsv1.UpgradeOptions{Remediation: &addonsv1.UpgradeRemediation{
			// HelmOp retries a version that does not become ready, because the failure may be temporary. After the retries,
			// HelmOp waits for another version.
			Strategy: addonsv1.UpgradeRemediationRollback, Retries: ptr.To[int32](2),
		}},
		Health: &addonsv1.HealthOptions{Timeout: &metav1.Duration{Duration: providerHealthTimeout}},
		// When bootstrap runs again, it applies components shortly before HelmOp resolves the tag. A correction of drift
		// would undo this.
		DriftDetection: &addonsv1.DriftDetectionOptions{Mode: addonsv1.DriftModeWarn},
	}), desired)
	made := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		// The server sets these fields.
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		made = append(made, &unstructured.Unstructured{Object: content})
	}
	return made, nil
}

func secret(name string, kind corev1.SecretType, key string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		// The label makes clusterctl move take the Secret along with its HelmOps.
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace,
			Name:      name,
			Labels:    map[string]string{clusterctlv1.ClusterctlMoveLabel: ""},
		},
		Type: kind, Data: map[string][]byte{key: data},
	}
}

// helmOp returns a HelmOp that installs an artifact in the management cluster. A deletion of the HelmOp orphans all
// objects: otherwise, the provider's HelmOp would delete the manager, and the state's HelmOp all Clusters.
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
